/* SPDX-License-Identifier: MIT */
/* The part of libnbd's interface that fio uses (libnbd.h of 1.0 and later). */
#ifndef SSDB_VT_LIBNBD_H
#define SSDB_VT_LIBNBD_H

#include <stddef.h>
#include <stdint.h>

struct nbd_handle;

typedef struct {
	int (*callback)(void *user_data, int *error);
	void *user_data;
	void (*free)(void *user_data);
} nbd_completion_callback;

#define LIBNBD_CMD_FLAG_FUA 1

const char *nbd_get_error(void);
int nbd_get_errno(void);
int nbd_get_debug(struct nbd_handle *nbd);
struct nbd_handle *nbd_create(void);
void nbd_close(struct nbd_handle *nbd);
int nbd_connect_uri(struct nbd_handle *nbd, const char *uri);
int64_t nbd_get_size(struct nbd_handle *nbd);
int64_t nbd_aio_pread(struct nbd_handle *nbd, void *buffer, size_t bytes, uint64_t offset,
		      nbd_completion_callback completion, uint32_t flags);
int64_t nbd_aio_pwrite(struct nbd_handle *nbd, const void *buffer, size_t bytes, uint64_t offset,
		       nbd_completion_callback completion, uint32_t flags);
int64_t nbd_aio_trim(struct nbd_handle *nbd, uint64_t bytes, uint64_t offset,
		     nbd_completion_callback completion, uint32_t flags);
int64_t nbd_aio_flush(struct nbd_handle *nbd, nbd_completion_callback completion, uint32_t flags);
int nbd_poll(struct nbd_handle *nbd, int timeout_ms);
int64_t nbd_aio_peek_command_completed(struct nbd_handle *nbd);
int nbd_aio_command_completed(struct nbd_handle *nbd, uint64_t cookie);

#endif
