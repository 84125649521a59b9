// SPDX-License-Identifier: MIT
/* The fourteen functions of libnbd that fio calls, answered by the drive in this process. */
#include "vt.h"
#include "vt_libnbd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct flight {
	u64 done_ns, seq;
	u64 submitted_ns;
	u64 bytes;
	u32 op;
	int error;
	int (*callback)(void *user_data, int *error);
	void *user_data;
};

/* One connection = one job. Commands in flight are a heap by completion time, then order. */
struct nbd_handle {
	struct flight *flights;
	u32 count, room;
	u64 seq;
};

static __thread int last_errno;
static __thread char last_error[160];

static int fail(int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(last_error, sizeof(last_error), format, args);
	va_end(args);
	last_errno = error;
	return -1;
}

VT_EXPORT const char *nbd_get_error(void)
{
	return last_error;
}

VT_EXPORT int nbd_get_errno(void)
{
	return last_errno;
}

VT_EXPORT int nbd_get_debug(struct nbd_handle *nbd)
{
	(void)nbd;
	return 0;
}

VT_EXPORT struct nbd_handle *nbd_create(void)
{
	vt_refuse_at_open();
	return calloc(1, sizeof(struct nbd_handle));
}

VT_EXPORT void nbd_close(struct nbd_handle *nbd)
{
	if (nbd)
		free(nbd->flights);
	free(nbd);
}

VT_EXPORT int nbd_connect_uri(struct nbd_handle *nbd, const char *uri)
{
	(void)nbd;
	if (vt_mode == VT_OFF)
		return fail(ENXIO, "the simulated drive is not set up");
	if (strncmp(uri, "sim:", 4))
		return fail(EINVAL, "this fio only reaches the simulated drive (uri=sim:), not %s",
			    uri);
	return 0;
}

VT_EXPORT int64_t nbd_get_size(struct nbd_handle *nbd)
{
	(void)nbd;
	return (int64_t)vt_drive_bytes();
}

static bool before(const struct flight *a, const struct flight *b)
{
	return a->done_ns < b->done_ns || (a->done_ns == b->done_ns && a->seq < b->seq);
}

static int push(struct nbd_handle *nbd, const struct flight *f)
{
	u32 pos = nbd->count;

	if (nbd->count == nbd->room) {
		u32 room = nbd->room ? 2 * nbd->room : 64;
		struct flight *more = realloc(nbd->flights, room * sizeof(*more));

		if (!more)
			return -1;
		nbd->flights = more;
		nbd->room = room;
	}
	nbd->count++;
	while (pos && before(f, &nbd->flights[(pos - 1) / 2])) {
		nbd->flights[pos] = nbd->flights[(pos - 1) / 2];
		pos = (pos - 1) / 2;
	}
	nbd->flights[pos] = *f;
	return 0;
}

static struct flight pop(struct nbd_handle *nbd)
{
	struct flight first = nbd->flights[0], last = nbd->flights[--nbd->count];
	u32 pos = 0;

	for (;;) {
		u32 child = 2 * pos + 1;

		if (child >= nbd->count)
			break;
		if (child + 1 < nbd->count &&
		    before(&nbd->flights[child + 1], &nbd->flights[child]))
			child++;
		if (!before(&nbd->flights[child], &last))
			break;
		nbd->flights[pos] = nbd->flights[child];
		pos = child;
	}
	nbd->flights[pos] = last;
	return first;
}

static u64 enter(void)
{
	if (vt_mode == VT_REAL) {
		vt_real_lock();
		return vt_real_now();
	}
	vt_did_something(vt_current());
	vt_charge(vt_config.submit_ns);
	vt_page_first_io(vt_s->now_ns);
	return vt_s->now_ns;
}

static void leave(void)
{
	if (vt_mode == VT_REAL)
		vt_real_unlock();
}

static int64_t submit(struct nbd_handle *nbd, const struct ssdb_cmd *cmd, void *buffer,
		      const nbd_completion_callback *completion)
{
	struct flight f = {
		.seq = ++nbd->seq, .bytes = cmd->bytes, .op = cmd->op,
		.callback = completion->callback, .user_data = completion->user_data,
	};
	struct ssdb_done done;
	int error;

	f.submitted_ns = enter();
	if (vt_mode == VT_REAL)
		vt_page_first_io(f.submitted_ns);
	vt_drive_submit(f.submitted_ns, cmd, &done);
	f.done_ns = done.done_ns;
	f.error = vt_drive_errno(done.error);
	error = f.error == EINVAL ? EINVAL : push(nbd, &f) ? ENOMEM : 0;
	if (!error)
		vt_page_submit(f.submitted_ns);
	leave();
	if (error)
		return fail(error, "the simulated drive refuses %llu bytes at %llu: %s",
			    (unsigned long long)cmd->bytes, (unsigned long long)cmd->offset,
			    strerror(error));
	if (!f.error)
		vt_drive_data(cmd, buffer);
	return (int64_t)f.seq;
}

VT_EXPORT int64_t nbd_aio_pread(struct nbd_handle *nbd, void *buffer, size_t bytes, uint64_t offset,
				nbd_completion_callback completion, uint32_t flags)
{
	struct ssdb_cmd cmd = { .op = SSDB_READ, .offset = offset, .bytes = bytes };

	(void)flags;
	return submit(nbd, &cmd, buffer, &completion);
}

VT_EXPORT int64_t nbd_aio_pwrite(struct nbd_handle *nbd, const void *buffer, size_t bytes,
				 uint64_t offset, nbd_completion_callback completion, uint32_t flags)
{
	struct ssdb_cmd cmd = { .op = SSDB_WRITE, .offset = offset, .bytes = bytes };

	if (flags & LIBNBD_CMD_FLAG_FUA)
		cmd.flags = SSDB_FUA;
	return submit(nbd, &cmd, (void *)(uintptr_t)buffer, &completion);
}

VT_EXPORT int64_t nbd_aio_trim(struct nbd_handle *nbd, uint64_t bytes, uint64_t offset,
			       nbd_completion_callback completion, uint32_t flags)
{
	struct ssdb_cmd cmd = { .op = SSDB_TRIM, .offset = offset, .bytes = bytes };

	(void)flags;
	return submit(nbd, &cmd, NULL, &completion);
}

VT_EXPORT int64_t nbd_aio_flush(struct nbd_handle *nbd, nbd_completion_callback completion,
				uint32_t flags)
{
	struct ssdb_cmd cmd = { .op = SSDB_FLUSH };

	(void)flags;
	return submit(nbd, &cmd, NULL, &completion);
}

static u64 now(void)
{
	return vt_mode == VT_REAL ? vt_real_now() : vt_s->now_ns;
}

/* Wait for the first completion; a negative timeout waits as long as it takes. */
VT_EXPORT int nbd_poll(struct nbd_handle *nbd, int timeout_ms)
{
	u64 until_ns = timeout_ms < 0 ? VT_NEVER : now() + (u64)timeout_ms * 1000000;

	if (nbd->count && nbd->flights[0].done_ns <= until_ns)
		until_ns = nbd->flights[0].done_ns;
	if (until_ns == VT_NEVER)
		return fail(EINVAL, "nothing in flight to wait for");
	if (vt_mode == VT_REAL) {
		vt_real_wait(until_ns);
	} else {
		if (until_ns > vt_s->now_ns)
			vt_park(until_ns);
		vt_did_something(vt_current());
	}
	return nbd->count && nbd->flights[0].done_ns <= now();
}

/* Report the first command that is done by now; its cookie, or 0. */
VT_EXPORT int64_t nbd_aio_peek_command_completed(struct nbd_handle *nbd)
{
	struct flight f;
	u64 now_ns;

	if (!nbd->count || nbd->flights[0].done_ns > now())
		return 0;
	f = pop(nbd);
	if (vt_mode == VT_VIRTUAL)
		vt_charge(vt_config.complete_ns);
	else
		vt_real_lock();
	now_ns = now();
	vt_page_complete(now_ns, f.op, f.bytes, now_ns - f.submitted_ns);
	leave();
	f.callback(f.user_data, &f.error);
	return (int64_t)f.seq;
}

VT_EXPORT int nbd_aio_command_completed(struct nbd_handle *nbd, uint64_t cookie)
{
	(void)nbd, (void)cookie;	/* peek has retired it */
	return 1;
}
