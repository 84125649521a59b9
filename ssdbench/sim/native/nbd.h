/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The simulated drive as an NBD server: what its three parts share. */
#ifndef SSDB_NBD_H
#define SSDB_NBD_H

#include <stdbool.h>
#include <stddef.h>

#include "ssdb_drive.h"

#define NBD_MAX_HELD (64u << 20)	/* answers held for one connection before it must wait */
#define NBD_MAX_INFLIGHT 4096u		/* requests of one connection before it must wait */
#define NBD_NS_PER_S 1000000000ull

enum nbd_command {
	CMD_READ, CMD_WRITE, CMD_DISC, CMD_FLUSH, CMD_TRIM, CMD_CACHE, CMD_WRITE_ZEROES
};
enum { CMD_FLAG_FUA = 1, CMD_FLAG_NO_HOLE = 2 };
enum { NBD_EPERM = 1, NBD_EIO = 5, NBD_ENOMEM = 12, NBD_EINVAL = 22, NBD_ENOSPC = 28 };

enum nbd_phase { WANT_FLAGS, WANT_OPTION, WANT_REQUEST };

struct nbd_buffer {
	u8 *data;
	size_t start, end, room;
};

struct nbd_connection {
	int fd;
	enum nbd_phase phase;
	bool no_zeroes, dead, finished;	/* finished: asked to end; what is under way is answered */
	u32 inflight, events;
	struct nbd_buffer in, out;
	struct nbd_connection *next;
};

struct nbd_request {
	u64 due_ns, order, handle, offset;
	u32 bytes, type, error;
	struct nbd_connection *from;
};

/* The drive behind the socket; nbd_device.c fills it in. */
struct nbd_device {
	void *state;
	u64 state_bytes, capacity, zero_ns;
	u32 lba, max_payload;
	int state_fd, data_fd;
	const char *state_path, *data_path;
};

extern struct nbd_device nbd_device;

/* nbd_device.c */
void nbd_die(const char *what) __attribute__((noreturn));
void nbd_die_errno(const char *what) __attribute__((noreturn));
u64 nbd_clock_ns(void);
u64 nbd_device_ns(void);			/* the drive's clock */
void nbd_device_open(const char *state, const char *data);
void nbd_device_save(void);
/* Give a request to the drive: its error and when it is done; what it writes is kept at once. */
void nbd_device_request(struct nbd_request *request, u32 flags, const u8 *payload, u64 now_ns);
bool nbd_device_read(u8 *data, u64 offset, u32 bytes);

/* nbd_protocol.c */
extern const char *nbd_export_name;
bool nbd_reserve(struct nbd_buffer *buffer, size_t more);
size_t nbd_held(const struct nbd_buffer *buffer);
void nbd_consume(struct nbd_buffer *buffer, size_t bytes);
void nbd_greet(struct nbd_connection *connection);
bool nbd_take(struct nbd_connection *connection);	/* one message; false when it is not whole */
void nbd_answer(const struct nbd_request *request);

/* nbd_server.c */
void nbd_begin(struct nbd_connection *connection, struct nbd_request *request, u32 flags,
	       const u8 *payload);

#endif
