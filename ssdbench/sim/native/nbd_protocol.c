// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The NBD protocol, fixed newstyle, as bytes: negotiation, requests and replies.
 *
 * https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
 */
#define _GNU_SOURCE
#include "nbd.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NBD_MAGIC 0x4e42444d41474943ull
#define NBD_IHAVEOPT 0x49484156454f5054ull
#define NBD_REP_MAGIC 0x3e889045565a9ull
#define NBD_REQUEST_MAGIC 0x25609513u
#define NBD_REPLY_MAGIC 0x67446698u

enum { FLAG_FIXED_NEWSTYLE = 1, FLAG_NO_ZEROES = 2 };
enum { OPT_EXPORT_NAME = 1, OPT_ABORT = 2, OPT_LIST = 3, OPT_INFO = 6, OPT_GO = 7 };
enum { REP_ACK = 1, REP_SERVER = 2, REP_INFO = 3 };
#define REP_ERR_UNSUP 0x80000001u
#define REP_ERR_INVALID 0x80000003u
#define REP_ERR_UNKNOWN 0x80000006u
enum { INFO_EXPORT = 0, INFO_BLOCK_SIZE = 3 };
/* HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES, CAN_MULTI_CONN */
#define EXPORT_FLAGS (1 | 4 | 8 | 32 | 64 | 256)
#define MAX_OPTION (64u << 10)		/* option data beyond this is an attack, not a name */

const char *nbd_export_name = "";

/* ---- buffers ---- */

bool nbd_reserve(struct nbd_buffer *buffer, size_t more)
{
	size_t held = buffer->end - buffer->start, room;
	u8 *data;

	if (buffer->end + more <= buffer->room)
		return true;
	if (buffer->start) {
		memmove(buffer->data, buffer->data + buffer->start, held);
		buffer->start = 0;
		buffer->end = held;
	}
	if (held + more <= buffer->room)
		return true;
	room = buffer->room ? buffer->room : 4096;
	while (room < held + more)
		room *= 2;
	data = realloc(buffer->data, room);
	if (!data)
		return false;
	buffer->data = data;
	buffer->room = room;
	return true;
}

size_t nbd_held(const struct nbd_buffer *buffer)
{
	return buffer->end - buffer->start;
}

void nbd_consume(struct nbd_buffer *buffer, size_t bytes)
{
	buffer->start += bytes;
	if (buffer->start == buffer->end)
		buffer->start = buffer->end = 0;
}

static void put_bytes(struct nbd_connection *c, const void *data, size_t bytes)
{
	if (!nbd_reserve(&c->out, bytes)) {
		c->dead = true;
		return;
	}
	if (bytes)
		memcpy(c->out.data + c->out.end, data, bytes);
	c->out.end += bytes;
}

static void put16(struct nbd_connection *c, u16 value)
{
	u16 wire = htobe16(value);

	put_bytes(c, &wire, 2);
}

static void put32(struct nbd_connection *c, u32 value)
{
	u32 wire = htobe32(value);

	put_bytes(c, &wire, 4);
}

static void put64(struct nbd_connection *c, u64 value)
{
	u64 wire = htobe64(value);

	put_bytes(c, &wire, 8);
}

static u16 get16(const u8 *at)
{
	u16 wire;

	memcpy(&wire, at, 2);
	return be16toh(wire);
}

static u32 get32(const u8 *at)
{
	u32 wire;

	memcpy(&wire, at, 4);
	return be32toh(wire);
}

static u64 get64(const u8 *at)
{
	u64 wire;

	memcpy(&wire, at, 8);
	return be64toh(wire);
}

/* ---- transmission ---- */

void nbd_answer(const struct front_request *r)
{
	struct nbd_connection *c = r->from;
	size_t bytes = r->type == CMD_READ && !r->error ? r->bytes : 0;
	u32 error = r->error;
	u8 *data;

	c->inflight--;
	if (c->dead)
		return;
	if (!nbd_reserve(&c->out, 16 + bytes)) {
		c->dead = true;
		return;
	}
	data = c->out.data + c->out.end + 16;
	if (bytes && !front_device_read(data, r->offset, r->bytes)) {
		error = EIO;
		bytes = 0;
	}
	put32(c, NBD_REPLY_MAGIC);
	put32(c, error);
	put64(c, r->handle);
	c->out.end += bytes;
}

/* Take one request from the input; false when more bytes are needed or the client must wait. */
static bool take_request(struct nbd_connection *c)
{
	u8 *at = c->in.data + c->in.start;
	size_t held = nbd_held(&c->in), whole = 28;
	struct front_request r = {0};
	u32 flags;

	if (held < 28 || c->inflight >= NBD_MAX_INFLIGHT || nbd_held(&c->out) > NBD_MAX_HELD)
		return false;
	flags = get16(at + 4);
	r.type = get16(at + 6);
	r.handle = get64(at + 8);
	r.offset = get64(at + 16);
	r.bytes = get32(at + 24);
	if (get32(at) != NBD_REQUEST_MAGIC || (r.type == CMD_WRITE && r.bytes > front_device.max_payload)) {
		c->dead = true;	/* where the next request begins is anyone's guess */
		return false;
	}
	if (r.type == CMD_DISC) {
		c->finished = true;
		return false;
	}
	if (r.type == CMD_WRITE)
		whole += r.bytes;
	if (held < whole)
		return false;
	r.from = c;
	c->inflight++;
	front_begin(&r, flags, r.type == CMD_WRITE ? at + 28 : NULL);
	nbd_consume(&c->in, whole);
	return true;
}

/* ---- negotiation ---- */

static void put_reply(struct nbd_connection *c, u32 option, u32 type, u32 bytes)
{
	put64(c, NBD_REP_MAGIC);
	put32(c, option);
	put32(c, type);
	put32(c, bytes);
}

static void put_export(struct nbd_connection *c)
{
	put64(c, front_device.capacity);
	put16(c, EXPORT_FLAGS);
}

static bool known_name(const u8 *name, u32 bytes)
{
	return !bytes || (bytes == strlen(nbd_export_name) &&
			  !memcmp(name, nbd_export_name, bytes));
}

static void option_export_name(struct nbd_connection *c, const u8 *data, u32 bytes)
{
	static const u8 zeroes[124];

	if (!known_name(data, bytes)) {
		c->finished = true;	/* this option has no way to say no but to hang up */
		return;
	}
	put_export(c);
	if (!c->no_zeroes)
		put_bytes(c, zeroes, sizeof(zeroes));
	c->phase = WANT_REQUEST;
}

static void option_list(struct nbd_connection *c, u32 bytes)
{
	u32 name_bytes = (u32)strlen(nbd_export_name);

	if (bytes) {
		put_reply(c, OPT_LIST, REP_ERR_INVALID, 0);
		return;
	}
	put_reply(c, OPT_LIST, REP_SERVER, 4 + name_bytes);
	put32(c, name_bytes);
	put_bytes(c, nbd_export_name, name_bytes);
	put_reply(c, OPT_LIST, REP_ACK, 0);
}

static void option_go(struct nbd_connection *c, u32 option, const u8 *data, u32 bytes)
{
	u32 name_bytes = bytes >= 6 ? get32(data) : 0;

	if (bytes < 6 || name_bytes > bytes - 6 ||
	    2u * get16(data + 4 + name_bytes) != bytes - 6 - name_bytes) {
		put_reply(c, option, REP_ERR_INVALID, 0);
		return;
	}
	if (!known_name(data + 4, name_bytes)) {
		put_reply(c, option, REP_ERR_UNKNOWN, 0);
		return;
	}
	put_reply(c, option, REP_INFO, 12);
	put16(c, INFO_EXPORT);
	put_export(c);
	put_reply(c, option, REP_INFO, 14);
	put16(c, INFO_BLOCK_SIZE);
	put32(c, front_device.lba);
	put32(c, 4096);
	put32(c, front_device.max_payload);
	put_reply(c, option, REP_ACK, 0);
	if (option == OPT_GO)
		c->phase = WANT_REQUEST;
}

static void take_option_data(struct nbd_connection *c, u32 option, const u8 *data, u32 bytes)
{
	switch (option) {
	case OPT_EXPORT_NAME:
		option_export_name(c, data, bytes);
		break;
	case OPT_ABORT:
		put_reply(c, option, REP_ACK, 0);
		c->finished = true;
		break;
	case OPT_LIST:
		option_list(c, bytes);
		break;
	case OPT_INFO:
	case OPT_GO:
		option_go(c, option, data, bytes);
		break;
	default:
		put_reply(c, option, REP_ERR_UNSUP, 0);
	}
}

static bool take_option(struct nbd_connection *c)
{
	const u8 *at = c->in.data + c->in.start;
	size_t held = nbd_held(&c->in);
	u32 bytes;

	if (held < 16 || nbd_held(&c->out) > NBD_MAX_HELD)
		return false;
	bytes = get32(at + 12);
	if (get64(at) != NBD_IHAVEOPT || bytes > MAX_OPTION) {
		c->dead = true;
		return false;
	}
	if (held < 16 + (size_t)bytes)
		return false;
	take_option_data(c, get32(at + 8), at + 16, bytes);
	nbd_consume(&c->in, 16 + (size_t)bytes);
	return true;
}

static bool take_flags(struct nbd_connection *c)
{
	u32 flags;

	if (nbd_held(&c->in) < 4)
		return false;
	flags = get32(c->in.data + c->in.start);
	if (flags & ~(u32)(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES)) {
		c->dead = true;
		return false;
	}
	c->no_zeroes = flags & FLAG_NO_ZEROES;
	c->phase = WANT_OPTION;
	nbd_consume(&c->in, 4);
	return true;
}

void nbd_greet(struct nbd_connection *c)
{
	put64(c, NBD_MAGIC);
	put64(c, NBD_IHAVEOPT);
	put16(c, FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
}

bool nbd_take(struct nbd_connection *c)
{
	if (c->dead || c->finished)
		return false;
	switch (c->phase) {
	case WANT_FLAGS:
		return take_flags(c);
	case WANT_OPTION:
		return take_option(c);
	default:
		return take_request(c);
	}
}
