// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The device behind a server: the simulated drive's state, and the data that it keeps.
 *
 * The data live in a sparse file that is read and written by pread and pwrite: a mapping would be
 * a little faster, but turns a full file system into SIGBUS instead of ENOSPC.
 */
#define _GNU_SOURCE
#include "front.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_PAYLOAD (32u << 20)		/* the largest READ or WRITE that clients may rely on */

struct front_device front_device = {.data_fd = -1};

void front_die(const char *what)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
	exit(1);
}

void front_die_errno(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
	exit(1);
}

u64 front_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * FRONT_NS_PER_S + (u64)now.tv_nsec;
}

/* The drive's clock goes on where it stood when its last user ended. */
u64 front_device_ns(void)
{
	return front_clock_ns() + front_device.zero_ns;
}

static bool store_write(const u8 *data, u64 offset, u32 bytes)
{
	ssize_t wrote;

	while (front_device.data_fd >= 0 && bytes) {
		wrote = pwrite(front_device.data_fd, data, bytes, (off_t)offset);
		if (wrote <= 0)
			return false;
		data += wrote;
		offset += (u64)wrote;
		bytes -= (u32)wrote;
	}
	return true;
}

bool front_device_read(u8 *data, u64 offset, u32 bytes)
{
	ssize_t got;

	if (front_device.data_fd < 0) {
		memset(data, 0, bytes);
		return true;
	}
	while (bytes) {
		got = pread(front_device.data_fd, data, bytes, (off_t)offset);
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
	return front_device.data_fd < 0 || !bytes ||
	       !fallocate(front_device.data_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)offset, bytes);
}

static u32 store_error(void)
{
	static bool said;
	int why = errno;

	if (!said)
		fprintf(stderr, "%s: %s: %s; writes fail until that is mended\n",
			program_invocation_short_name, front_device.data_path, strerror(why));
	said = true;
	return why == ENOSPC || why == EDQUOT ? ENOSPC : EIO;
}

static u32 wire_error(u32 error, bool writes)
{
	switch (error) {
	case SSDB_OK:
		return 0;
	case SSDB_E_RANGE:
		return writes ? ENOSPC : EINVAL;
	case SSDB_E_ALIGN:
	case SSDB_E_OP:
	case SSDB_E_SIZE:
		return EINVAL;
	case SSDB_E_NOSPACE:
		return ENOSPC;
	default:
		return EIO;
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
static u32 objection(const struct front_request *r, u32 flags)
{
	u32 allowed = CMD_FLAG_FUA | (r->type == CMD_WRITE_ZEROES ? CMD_FLAG_NO_HOLE : 0);
	bool writes = r->type != CMD_READ;

	if (r->type > CMD_WRITE_ZEROES || r->type == CMD_DISC || r->type == CMD_CACHE)
		return EINVAL;
	if (flags & ~allowed)
		return EINVAL;
	if (r->type == CMD_FLUSH)
		return r->offset || r->bytes ? EINVAL : 0;
	if (!r->bytes || r->offset % front_device.lba || r->bytes % front_device.lba)
		return EINVAL;
	if (r->offset > front_device.capacity || r->bytes > front_device.capacity - r->offset)
		return writes ? ENOSPC : EINVAL;
	return r->type == CMD_READ && r->bytes > front_device.max_payload ? EINVAL : 0;
}

/* Give a request to the drive and learn when it is done. */
static void submit(struct front_request *r, u32 flags, u64 now_ns)
{
	struct ssdb_cmd cmd = {
		.op = drive_op(r->type),
		.flags = flags & CMD_FLAG_FUA ? SSDB_FUA : 0,
		.offset = r->offset,
		.bytes = r->bytes,
	};
	struct ssdb_done done;

	ssdb_submit(front_device.state, now_ns, &cmd, &done);
	r->due_ns = done.done_ns;
	r->error = wire_error(done.error, r->type != CMD_READ);
}

static void store(struct front_request *r, u8 *data)
{
	bool kept = true;

	if (r->type == CMD_READ && data && !front_device_read(data, r->offset, r->bytes))
		r->error = EIO;
	else if (r->type == CMD_WRITE)
		kept = store_write(data, r->offset, r->bytes);
	else if (r->type == CMD_TRIM || r->type == CMD_WRITE_ZEROES)
		kept = store_punch(r->offset, r->bytes);
	if (!kept)
		r->error = store_error();
}

void front_device_request(struct front_request *request, u32 flags, u8 *data, u64 now_ns)
{
	request->error = objection(request, flags);
	request->due_ns = now_ns;
	if (!request->error)
		submit(request, flags, now_ns);
	if (!request->error)
		store(request, data);
}

/*
 * A page of the state that the disk cannot give. Its blocks are allocated, which does not help on
 * a file system that copies on write, or when somebody cuts the file off.
 */
static void no_page(int number, siginfo_t *info, void *context)
{
	const char *at = info->si_addr, *state = front_device.state;

	(void)context;
	if (at >= state && at < state + front_device.state_bytes) {
		dprintf(STDERR_FILENO, "%s: %s has lost a page: its disk is full or fails, or "
			"the file was cut off\n", program_invocation_short_name,
			front_device.state_path);
		_exit(1);
	}
	signal(number, SIG_DFL);	/* not ours: the access is made again and ends us */
}

/* A hole in the state would be filled while the drive works, and find the disk full. */
static void allocate_state(void)
{
	int error = posix_fallocate(front_device.state_fd, 0, (off_t)front_device.state_bytes);

	if (!error)
		return;
	fprintf(stderr, "%s: %s needs %llu MiB, and its disk has no room for it: %s\n",
		program_invocation_short_name, front_device.state_path,
		(unsigned long long)(front_device.state_bytes >> 20), strerror(error));
	exit(1);
}

static void open_state(const char *path)
{
	struct sigaction on_bus = {.sa_sigaction = no_page, .sa_flags = SA_SIGINFO};
	struct stat info;
	int error;

	front_device.state_path = path;
	front_device.state_fd = open(path, O_RDWR | O_CLOEXEC);
	if (front_device.state_fd < 0 || fstat(front_device.state_fd, &info))
		front_die_errno(path);
	if (flock(front_device.state_fd, LOCK_EX | LOCK_NB))
		front_die("the state is in use by another process");
	front_device.state_bytes = (u64)info.st_size;
	if (!front_device.state_bytes)
		front_die("the state file is empty");
	allocate_state();
	sigaction(SIGBUS, &on_bus, NULL);
	front_device.state = mmap(NULL, front_device.state_bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_POPULATE, front_device.state_fd, 0);
	if (front_device.state == MAP_FAILED)
		front_die_errno("cannot map the state");
	error = ssdb_attach(front_device.state, front_device.state_bytes);
	if (error == SSDB_E_TORN)
		front_die("the state is torn: its last user died inside a request");
	if (error == SSDB_E_MEMORY)
		front_die("the state file is truncated");
	if (error)
		front_die("the state is of another version, or no state at all");
	front_device.capacity = ssdb_capacity_bytes(front_device.state);
	front_device.lba = ssdb_lba_bytes(front_device.state);
	front_device.max_payload = MAX_PAYLOAD;
	if (ssdb_max_request_bytes(front_device.state) < MAX_PAYLOAD)
		front_device.max_payload = (u32)ssdb_max_request_bytes(front_device.state);
	front_device.zero_ns = ssdb_now_ns(front_device.state) - front_clock_ns();
}

static void open_data(const char *path)
{
	if (!path)
		return;
	front_device.data_path = path;
	front_device.data_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (front_device.data_fd < 0 || ftruncate(front_device.data_fd, (off_t)front_device.capacity))
		front_die_errno(path);
}

void front_device_open(const char *state, const char *data)
{
	open_state(state);
	open_data(data);
}

void front_device_save(void)
{
	if (front_device.data_fd >= 0 && fsync(front_device.data_fd))
		front_die_errno("the data could not be saved");
	if (msync(front_device.state, front_device.state_bytes, MS_SYNC))
		front_die_errno("the state could not be saved");
}
