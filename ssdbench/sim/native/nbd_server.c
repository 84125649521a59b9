// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * ssdb-nbd: the simulated drive as an NBD server on a unix socket, in real time.
 *
 * One thread, one epoll loop, any number of connections (each sees the writes of the others, so
 * NBD_FLAG_CAN_MULTI_CONN holds). The core says at once when a request completes; its answer waits
 * in a heap until the clock gets there. The loop sleeps until shortly before the next answer is
 * due and spins for the rest, because a timer of this kind of machine is late by some 30 us.
 *
 * The data live in a sparse file that is read and written by pread and pwrite: a mapping would be
 * a little faster, but turns a full file system into SIGBUS instead of ENOSPC.
 *
 * Protocol: https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md (fixed newstyle).
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ssdb_drive.h"

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
enum { CMD_READ, CMD_WRITE, CMD_DISC, CMD_FLUSH, CMD_TRIM, CMD_CACHE, CMD_WRITE_ZEROES };
enum { CMD_FLAG_FUA = 1, CMD_FLAG_NO_HOLE = 2 };
/* HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES, CAN_MULTI_CONN */
#define EXPORT_FLAGS (1 | 4 | 8 | 32 | 64 | 256)
enum { NBD_EPERM = 1, NBD_EIO = 5, NBD_ENOMEM = 12, NBD_EINVAL = 22, NBD_ENOSPC = 28 };

#define MAX_PAYLOAD (32u << 20)		/* the largest READ or WRITE that clients may rely on */
#define MAX_OPTION (64u << 10)		/* option data beyond this is an attack, not a name */
#define MAX_HELD (64u << 20)		/* answers held for one connection before it must wait */
#define MAX_INFLIGHT 4096u		/* requests of one connection before it must wait */
#define READ_STEP (256u << 10)
#define SPIN_NS 60000			/* sleep until this long before the next answer */
#define IDLE_NS 100000000		/* without requests: background work this often */
#define DRAIN_NS 10000000000ull		/* at the end: at most this long for answers under way */
#define CALIBRATE_ROUNDS 1000
#define NS_PER_S 1000000000ull

enum phase { WANT_FLAGS, WANT_OPTION, WANT_REQUEST };

struct buffer {
	u8 *data;
	size_t start, end, room;
};

struct connection {
	int fd;
	enum phase phase;
	bool no_zeroes, dead, finished;	/* finished: asked to end; what is under way is answered */
	u32 inflight, events;
	struct buffer in, out;
	struct connection *next;
};

struct request {
	u64 due_ns, order, handle, offset;
	u32 bytes, type, error;
	struct connection *from;
};

static struct {
	void *state;
	u64 state_bytes, capacity, device_zero_ns, order, overhead_ns;
	u32 lba, max_payload;
	int state_fd, data_fd, epoll_fd, listen_fd, signal_fd;
	const char *export_name, *state_path, *data_path;
	struct connection *connections;
	struct request *heap;
	size_t heap_count, heap_room;
	bool ending;
} server = {.data_fd = -1, .export_name = ""};

static void die(const char *what)
{
	fprintf(stderr, "ssdb-nbd: %s\n", what);
	exit(1);
}

static void die_errno(const char *what)
{
	fprintf(stderr, "ssdb-nbd: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- time ---- */

static u64 clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * NS_PER_S + (u64)now.tv_nsec;
}

/* The drive's clock goes on where it stood when its last user ended. */
static u64 device_ns(void)
{
	return clock_ns() + server.device_zero_ns;
}

static int wait_events(struct epoll_event *events, int count, u64 timeout_ns)
{
	struct timespec span = {timeout_ns / NS_PER_S, (long)(timeout_ns % NS_PER_S)};
	static bool coarse;
	int found;

	if (!coarse) {
		found = (int)syscall(SYS_epoll_pwait2, server.epoll_fd, events, count, &span, NULL, 0);
		if (found >= 0 || errno != ENOSYS)
			return found;
		coarse = true;	/* before Linux 5.11: sleep whole milliseconds, spin for the rest */
	}
	return epoll_wait(server.epoll_fd, events, count, (int)(timeout_ns / 1000000));
}

/* ---- buffers ---- */

static bool buffer_reserve(struct buffer *buffer, size_t more)
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

static size_t buffer_held(const struct buffer *buffer)
{
	return buffer->end - buffer->start;
}

static void buffer_consume(struct buffer *buffer, size_t bytes)
{
	buffer->start += bytes;
	if (buffer->start == buffer->end)
		buffer->start = buffer->end = 0;
}

static void put_bytes(struct connection *c, const void *data, size_t bytes)
{
	if (!buffer_reserve(&c->out, bytes)) {
		c->dead = true;
		return;
	}
	if (bytes)
		memcpy(c->out.data + c->out.end, data, bytes);
	c->out.end += bytes;
}

static void put16(struct connection *c, u16 value)
{
	u16 wire = htobe16(value);

	put_bytes(c, &wire, 2);
}

static void put32(struct connection *c, u32 value)
{
	u32 wire = htobe32(value);

	put_bytes(c, &wire, 4);
}

static void put64(struct connection *c, u64 value)
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

/* ---- answers under way: a binary heap by due time, first come first served within it ---- */

static bool sooner(const struct request *a, const struct request *b)
{
	return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->order < b->order);
}

static bool heap_push(const struct request *request)
{
	size_t at = server.heap_count, parent, room;
	struct request *heap;

	if (at == server.heap_room) {
		room = server.heap_room ? server.heap_room * 2 : 256;
		heap = realloc(server.heap, room * sizeof(*heap));
		if (!heap)
			return false;
		server.heap = heap;
		server.heap_room = room;
	}
	server.heap_count++;
	for (; at; at = parent) {
		parent = (at - 1) / 2;
		if (!sooner(request, &server.heap[parent]))
			break;
		server.heap[at] = server.heap[parent];
	}
	server.heap[at] = *request;
	return true;
}

static struct request heap_pop(void)
{
	struct request top = server.heap[0], last = server.heap[--server.heap_count];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < server.heap_count) {
		if (child + 1 < server.heap_count &&
		    sooner(&server.heap[child + 1], &server.heap[child]))
			child++;
		if (!sooner(&server.heap[child], &last))
			break;
		server.heap[at] = server.heap[child];
		at = child;
	}
	server.heap[at] = last;
	return top;
}

/* ---- data ---- */

static bool store_write(const u8 *data, u64 offset, u32 bytes)
{
	ssize_t wrote;

	while (server.data_fd >= 0 && bytes) {
		wrote = pwrite(server.data_fd, data, bytes, (off_t)offset);
		if (wrote <= 0)
			return false;
		data += wrote;
		offset += (u64)wrote;
		bytes -= (u32)wrote;
	}
	return true;
}

static bool store_read(u8 *data, u64 offset, u32 bytes)
{
	ssize_t got;

	if (server.data_fd < 0) {
		memset(data, 0, bytes);
		return true;
	}
	while (bytes) {
		got = pread(server.data_fd, data, bytes, (off_t)offset);
		if (got < 0)
			return false;
		if (!got) {	/* beyond the end of a file that someone cut off */
			memset(data, 0, bytes);
			return true;
		}
		data += got;
		offset += (u64)got;
		bytes -= (u32)got;
	}
	return true;
}

static bool store_punch(u64 offset, u32 bytes)
{
	return server.data_fd < 0 || !bytes ||
	       !fallocate(server.data_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)offset, bytes);
}

static u32 store_error(void)
{
	static bool said;

	if (!said)
		fprintf(stderr, "ssdb-nbd: %s: %s; writes fail until that is mended\n",
			server.data_path, strerror(errno));
	said = true;
	return errno == ENOSPC || errno == EDQUOT ? NBD_ENOSPC : NBD_EIO;
}

/* ---- transmission ---- */

static u32 wire_error(u32 error, bool writes)
{
	switch (error) {
	case SSDB_OK:
		return 0;
	case SSDB_E_RANGE:
		return writes ? NBD_ENOSPC : NBD_EINVAL;
	case SSDB_E_ALIGN:
	case SSDB_E_OP:
	case SSDB_E_SIZE:
		return NBD_EINVAL;
	case SSDB_E_NOSPACE:
		return NBD_ENOSPC;
	default:
		return NBD_EIO;
	}
}

static u32 drive_op(u32 type)
{
	switch (type) {
	case CMD_READ:
		return SSDB_READ;
	case CMD_WRITE:
		return SSDB_WRITE;
	case CMD_TRIM:
		return SSDB_TRIM;
	case CMD_WRITE_ZEROES:
		return SSDB_ZEROES;
	default:
		return SSDB_FLUSH;
	}
}

/* What is wrong with a request before the drive sees it, or 0. */
static u32 objection(const struct request *r, u32 flags)
{
	u32 allowed = CMD_FLAG_FUA | (r->type == CMD_WRITE_ZEROES ? CMD_FLAG_NO_HOLE : 0);
	bool writes = r->type != CMD_READ;

	if (r->type > CMD_WRITE_ZEROES || r->type == CMD_DISC || r->type == CMD_CACHE)
		return NBD_EINVAL;
	if (flags & ~allowed)
		return NBD_EINVAL;
	if (r->type == CMD_FLUSH)
		return r->offset || r->bytes ? NBD_EINVAL : 0;
	if (!r->bytes || r->offset % server.lba || r->bytes % server.lba)
		return NBD_EINVAL;
	if (r->offset > server.capacity || r->bytes > server.capacity - r->offset)
		return writes ? NBD_ENOSPC : NBD_EINVAL;
	return r->type == CMD_READ && r->bytes > server.max_payload ? NBD_EINVAL : 0;
}

/* Give a request to the drive and learn when it is done. */
static void submit(struct request *r, u32 flags, u64 now_ns)
{
	struct ssdb_cmd cmd = {
		.op = drive_op(r->type),
		.flags = flags & CMD_FLAG_FUA ? SSDB_FUA : 0,
		.offset = r->offset,
		.bytes = r->bytes,
	};
	struct ssdb_done done;

	ssdb_submit(server.state, now_ns, &cmd, &done);
	r->due_ns = done.done_ns;
	r->error = wire_error(done.error, r->type != CMD_READ);
}

static void store(struct request *r, const u8 *payload)
{
	bool kept = true;

	if (r->type == CMD_WRITE)
		kept = store_write(payload, r->offset, r->bytes);
	else if (r->type == CMD_TRIM || r->type == CMD_WRITE_ZEROES)
		kept = store_punch(r->offset, r->bytes);
	if (!kept)
		r->error = store_error();
}

static void begin(struct connection *c, struct request *r, u32 flags, const u8 *payload)
{
	u64 now_ns = device_ns(), latency_ns;

	r->from = c;
	r->order = server.order++;
	r->error = objection(r, flags);
	r->due_ns = now_ns;
	if (!r->error)
		submit(r, flags, now_ns);
	if (!r->error)
		store(r, payload);
	latency_ns = r->due_ns - now_ns;
	r->due_ns -= latency_ns < server.overhead_ns ? latency_ns : server.overhead_ns;
	c->inflight++;
	if (!heap_push(r))
		die("out of memory");
}

static void answer(const struct request *r)
{
	struct connection *c = r->from;
	size_t bytes = r->type == CMD_READ && !r->error ? r->bytes : 0;
	u32 error = r->error;
	u8 *data;

	c->inflight--;
	if (c->dead)
		return;
	if (!buffer_reserve(&c->out, 16 + bytes)) {
		c->dead = true;
		return;
	}
	data = c->out.data + c->out.end + 16;
	if (bytes && !store_read(data, r->offset, r->bytes)) {
		error = NBD_EIO;
		bytes = 0;
	}
	put32(c, NBD_REPLY_MAGIC);
	put32(c, error);
	put64(c, r->handle);
	c->out.end += bytes;
}

/* Take one request from the input; false when more bytes are needed or the client must wait. */
static bool take_request(struct connection *c)
{
	const u8 *at = c->in.data + c->in.start;
	size_t held = buffer_held(&c->in), whole = 28;
	struct request r = {0};
	u32 flags;

	if (held < 28 || c->inflight >= MAX_INFLIGHT || buffer_held(&c->out) > MAX_HELD)
		return false;
	flags = get16(at + 4);
	r.type = get16(at + 6);
	r.handle = get64(at + 8);
	r.offset = get64(at + 16);
	r.bytes = get32(at + 24);
	if (get32(at) != NBD_REQUEST_MAGIC || (r.type == CMD_WRITE && r.bytes > server.max_payload)) {
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
	begin(c, &r, flags, at + 28);
	buffer_consume(&c->in, whole);
	return true;
}

/* ---- negotiation ---- */

static void put_reply(struct connection *c, u32 option, u32 type, u32 bytes)
{
	put64(c, NBD_REP_MAGIC);
	put32(c, option);
	put32(c, type);
	put32(c, bytes);
}

static void put_export(struct connection *c)
{
	put64(c, server.capacity);
	put16(c, EXPORT_FLAGS);
}

static bool known_name(const u8 *name, u32 bytes)
{
	return !bytes || (bytes == strlen(server.export_name) &&
			  !memcmp(name, server.export_name, bytes));
}

static void option_export_name(struct connection *c, const u8 *data, u32 bytes)
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

static void option_list(struct connection *c, u32 bytes)
{
	u32 name_bytes = (u32)strlen(server.export_name);

	if (bytes) {
		put_reply(c, OPT_LIST, REP_ERR_INVALID, 0);
		return;
	}
	put_reply(c, OPT_LIST, REP_SERVER, 4 + name_bytes);
	put32(c, name_bytes);
	put_bytes(c, server.export_name, name_bytes);
	put_reply(c, OPT_LIST, REP_ACK, 0);
}

static void option_go(struct connection *c, u32 option, const u8 *data, u32 bytes)
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
	put32(c, server.lba);
	put32(c, 4096);
	put32(c, server.max_payload);
	put_reply(c, option, REP_ACK, 0);
	if (option == OPT_GO)
		c->phase = WANT_REQUEST;
}

static void take_option_data(struct connection *c, u32 option, const u8 *data, u32 bytes)
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

static bool take_option(struct connection *c)
{
	const u8 *at = c->in.data + c->in.start;
	size_t held = buffer_held(&c->in);
	u32 bytes;

	if (held < 16 || buffer_held(&c->out) > MAX_HELD)
		return false;
	bytes = get32(at + 12);
	if (get64(at) != NBD_IHAVEOPT || bytes > MAX_OPTION) {
		c->dead = true;
		return false;
	}
	if (held < 16 + (size_t)bytes)
		return false;
	take_option_data(c, get32(at + 8), at + 16, bytes);
	buffer_consume(&c->in, 16 + (size_t)bytes);
	return true;
}

static bool take_flags(struct connection *c)
{
	u32 flags;

	if (buffer_held(&c->in) < 4)
		return false;
	flags = get32(c->in.data + c->in.start);
	if (flags & ~(u32)(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES)) {
		c->dead = true;
		return false;
	}
	c->no_zeroes = flags & FLAG_NO_ZEROES;
	c->phase = WANT_OPTION;
	buffer_consume(&c->in, 4);
	return true;
}

/* ---- connections ---- */

static bool take(struct connection *c)
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

static bool must_wait(const struct connection *c)
{
	return c->finished || c->inflight >= MAX_INFLIGHT || buffer_held(&c->out) > MAX_HELD;
}

static void receive(struct connection *c)
{
	ssize_t got;

	if (must_wait(c))
		return;
	if (!buffer_reserve(&c->in, READ_STEP)) {
		c->dead = true;
		return;
	}
	got = recv(c->fd, c->in.data + c->in.end, c->in.room - c->in.end, MSG_DONTWAIT);
	if (!got || (got < 0 && errno != EAGAIN && errno != EINTR))
		c->dead = true;
	else if (got > 0)
		c->in.end += (size_t)got;
	while (take(c))
		;
}

static void flush_out(struct connection *c)
{
	ssize_t sent;

	while (!c->dead && buffer_held(&c->out)) {
		sent = send(c->fd, c->out.data + c->out.start, buffer_held(&c->out),
			    MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (sent < 0)
			c->dead = true;
		else
			buffer_consume(&c->out, (size_t)sent);
	}
}

static void watch(struct connection *c)
{
	struct epoll_event event = {.data.ptr = c};

	event.events = (must_wait(c) || server.ending ? 0 : EPOLLIN) |
		       (buffer_held(&c->out) ? EPOLLOUT : 0);
	if (event.events == c->events)
		return;
	c->events = event.events;
	epoll_ctl(server.epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
}

static void greet(int fd)
{
	struct connection *c = calloc(1, sizeof(*c));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

	if (!c || epoll_ctl(server.epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		free(c);
		close(fd);
		return;
	}
	c->fd = fd;
	c->events = EPOLLIN;
	c->next = server.connections;
	server.connections = c;
	put64(c, NBD_MAGIC);
	put64(c, NBD_IHAVEOPT);
	put16(c, FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
}

static void accept_all(void)
{
	int fd;

	while ((fd = accept4(server.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		greet(fd);
}

/* Close what has ended; a connection with requests under way lives on until they are answered. */
static void tend_connections(void)
{
	struct connection **link = &server.connections, *c;

	while ((c = *link)) {
		while (!must_wait(c) && take(c))
			;
		flush_out(c);
		if (c->finished && !c->inflight && !buffer_held(&c->out))
			c->dead = true;
		if (c->dead && c->fd >= 0) {
			close(c->fd);
			c->fd = -1;
		}
		if (c->dead && !c->inflight) {
			*link = c->next;
			free(c->in.data);
			free(c->out.data);
			free(c);
			continue;
		}
		if (!c->dead)
			watch(c);
		link = &c->next;
	}
}

/* ---- the loop ---- */

static void answer_due(void)
{
	u64 now_ns = device_ns();

	while (server.heap_count && server.heap[0].due_ns <= now_ns) {
		struct request r = heap_pop();

		answer(&r);
	}
}

static u64 sleep_ns(void)
{
	u64 now_ns = device_ns(), due_ns;

	if (!server.heap_count)
		return IDLE_NS;
	due_ns = server.heap[0].due_ns;
	return due_ns > now_ns + SPIN_NS ? due_ns - now_ns - SPIN_NS : 0;
}

static void dispatch(const struct epoll_event *event)
{
	if (event->data.ptr == &server.listen_fd)
		accept_all();
	else if (event->data.ptr == &server.signal_fd)
		server.ending = true;
	else if (event->events & EPOLLIN)
		receive(event->data.ptr);
	else if (event->events & (EPOLLERR | EPOLLHUP))
		((struct connection *)event->data.ptr)->dead = true;
}

static bool all_sent(void)
{
	const struct connection *c;

	for (c = server.connections; c; c = c->next)
		if (!c->dead && buffer_held(&c->out))
			return false;
	return !server.heap_count;
}

static void serve(void)
{
	struct epoll_event events[64];
	u64 ends_ns = 0;
	int count, index;

	for (;;) {
		count = wait_events(events, 64, sleep_ns());
		if (count < 0 && errno != EINTR)
			die_errno("cannot wait for requests");
		for (index = 0; index < count; index++)
			dispatch(&events[index]);
		answer_due();
		tend_connections();
		if (!count && !server.heap_count)
			ssdb_idle(server.state, device_ns());
		else if (!count)
			sched_yield();
		if (!server.ending)
			continue;
		if (!ends_ns)
			ends_ns = clock_ns() + DRAIN_NS;
		if (all_sent() || clock_ns() > ends_ns)
			return;
	}
}

/* ---- what the socket adds ---- */

static _Noreturn void echo(int fd)
{
	u8 message[28];

	while (read(fd, message, sizeof(message)) > 0)
		if (write(fd, message, 16) != 16)
			break;
	_exit(0);
}

static int compare_u64(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

/* The median round trip of a request and its reply between two processes on this machine. */
static u64 round_trip_ns(void)
{
	u8 message[28] = {0};
	u64 took_ns[CALIBRATE_ROUNDS], began_ns;
	int pair[2], round = 0;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return 0;
	child = fork();
	if (!child) {
		close(pair[0]);
		echo(pair[1]);
	}
	close(pair[1]);
	for (; child > 0 && round < CALIBRATE_ROUNDS; round++) {
		began_ns = clock_ns();
		if (write(pair[0], message, 28) != 28 || read(pair[0], message, 16) != 16)
			break;
		took_ns[round] = clock_ns() - began_ns;
	}
	close(pair[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	if (round < CALIBRATE_ROUNDS)
		return 0;
	qsort(took_ns, CALIBRATE_ROUNDS, sizeof(took_ns[0]), compare_u64);
	return took_ns[CALIBRATE_ROUNDS / 2];
}

/* ---- start and end ---- */

/*
 * A page of the state that the disk cannot give. Its blocks are allocated, which does not help on
 * a file system that copies on write, or when somebody cuts the file off.
 */
static void no_page(int number, siginfo_t *info, void *context)
{
	const char *at = info->si_addr, *state = server.state;

	(void)context;
	if (at >= state && at < state + server.state_bytes) {
		dprintf(STDERR_FILENO, "ssdb-nbd: %s has lost a page: its disk is full or fails, or "
			"the file was cut off\n", server.state_path);
		_exit(1);
	}
	signal(number, SIG_DFL);	/* not ours: the access is made again and ends us */
}

/* A hole in the state would be filled while the drive works, and find the disk full. */
static void allocate_state(void)
{
	int error = posix_fallocate(server.state_fd, 0, (off_t)server.state_bytes);

	if (!error)
		return;
	fprintf(stderr, "ssdb-nbd: %s needs %llu MiB, and its disk has no room for it: %s\n",
		server.state_path, (unsigned long long)(server.state_bytes >> 20), strerror(error));
	exit(1);
}

static void open_state(const char *path)
{
	struct sigaction on_bus = {.sa_sigaction = no_page, .sa_flags = SA_SIGINFO};
	struct stat info;
	int error;

	server.state_path = path;
	server.state_fd = open(path, O_RDWR | O_CLOEXEC);
	if (server.state_fd < 0 || fstat(server.state_fd, &info))
		die_errno(path);
	if (flock(server.state_fd, LOCK_EX | LOCK_NB))
		die("the state is in use by another process");
	server.state_bytes = (u64)info.st_size;
	if (!server.state_bytes)
		die("the state file is empty");
	allocate_state();
	sigaction(SIGBUS, &on_bus, NULL);
	server.state = mmap(NULL, server.state_bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_POPULATE, server.state_fd, 0);
	if (server.state == MAP_FAILED)
		die_errno("cannot map the state");
	error = ssdb_attach(server.state, server.state_bytes);
	if (error == SSDB_E_TORN)
		die("the state is torn: its last user died inside a request");
	if (error == SSDB_E_MEMORY)
		die("the state file is truncated");
	if (error)
		die("the state is of another version, or no state at all");
	server.capacity = ssdb_capacity_bytes(server.state);
	server.lba = ssdb_lba_bytes(server.state);
	server.max_payload = MAX_PAYLOAD;
	if (ssdb_max_request_bytes(server.state) < MAX_PAYLOAD)
		server.max_payload = (u32)ssdb_max_request_bytes(server.state);
	server.device_zero_ns = ssdb_now_ns(server.state) - clock_ns();
}

static void open_data(const char *path)
{
	if (!path)
		return;
	server.data_path = path;
	server.data_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (server.data_fd < 0 || ftruncate(server.data_fd, (off_t)server.capacity))
		die_errno(path);
}

static void listen_on(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		die("the path of a unix socket has at most 107 characters");
	strcpy(address.sun_path, path);
	if (!connect(probe, (void *)&address, sizeof(address)))
		die("another server answers on this socket");
	if (errno == ECONNREFUSED)
		unlink(path);	/* its server is gone */
	close(probe);
	server.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server.listen_fd < 0 || bind(server.listen_fd, (void *)&address, sizeof(address)) ||
	    listen(server.listen_fd, 128))
		die_errno(path);
}

static void watch_fd(int fd, void *tag)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};

	if (fd < 0 || epoll_ctl(server.epoll_fd, EPOLL_CTL_ADD, fd, &event))
		die_errno("cannot watch for requests");
}

static void watch_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	server.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	watch_fd(server.signal_fd, &server.signal_fd);
}

static int finish(const char *socket_path)
{
	unlink(socket_path);
	if (server.data_fd >= 0 && fsync(server.data_fd))
		die_errno("the data could not be saved");
	if (msync(server.state, server.state_bytes, MS_SYNC))
		die_errno("the state could not be saved");
	return 0;
}

static _Noreturn void usage(void)
{
	fputs("usage: ssdb-nbd --state FILE --socket PATH [--data FILE] [--export NAME]\n"
	      "                [--overhead-ns N]\n"
	      "Without --data, what is read is zeros. --overhead-ns is what the socket adds to\n"
	      "each request on this machine, and is taken off the drive's latency; without it,\n"
	      "it is measured first.\n", stderr);
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"state", required_argument, NULL, 's'}, {"socket", required_argument, NULL, 'u'},
		{"data", required_argument, NULL, 'd'}, {"export", required_argument, NULL, 'e'},
		{"overhead-ns", required_argument, NULL, 'o'}, {0},
	};
	const char *state = NULL, *socket_path = NULL, *data = NULL, *overhead = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's': state = optarg; break;
		case 'u': socket_path = optarg; break;
		case 'd': data = optarg; break;
		case 'e': server.export_name = optarg; break;
		case 'o': overhead = optarg; break;
		default: usage();
		}
	}
	if (!state || !socket_path || optind != argc)
		usage();
	open_state(state);
	open_data(data);
	server.overhead_ns = overhead ? strtoull(overhead, NULL, 10) : round_trip_ns();
	server.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	watch_signals();
	listen_on(socket_path);
	watch_fd(server.listen_fd, &server.listen_fd);
	fprintf(stderr, "ssdb-nbd: ready on %s, taking %llu ns off each request\n", socket_path,
		(unsigned long long)server.overhead_ns);
	serve();
	return finish(socket_path);
}
