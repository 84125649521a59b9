/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The simulated drive as an NBD server: what its three parts share. */
#ifndef SSDB_NBD_H
#define SSDB_NBD_H

#include "front.h"

#define NBD_MAX_HELD (64u << 20)	/* answers held for one connection before it must wait */
#define NBD_MAX_INFLIGHT 4096u		/* requests of one connection before it must wait */

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

/* nbd_protocol.c */
extern const char *nbd_export_name;
bool nbd_reserve(struct nbd_buffer *buffer, size_t more);
size_t nbd_held(const struct nbd_buffer *buffer);
void nbd_consume(struct nbd_buffer *buffer, size_t bytes);
void nbd_greet(struct nbd_connection *connection);
bool nbd_take(struct nbd_connection *connection);	/* one message; false when it is not whole */
void nbd_answer(const struct front_request *request);

#endif
