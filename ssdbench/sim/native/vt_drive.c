// SPDX-License-Identifier: MIT
/*
 * The drive: its state file, mapped and locked for as long as this fio lives.
 *
 * The drive's clock stands still between two fio processes. The core keeps the time of its last
 * request in the state itself, so a fio that was killed leaves no gap and no step back.
 */
#include "vt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char *state;
static size_t state_bytes;
static u64 device_start_ns;	/* device time when fio's clock was fio_start_ns */
static u64 fio_start_ns;
static int data_fd = -1;

static const char *sentence(int error)
{
	switch (error) {
	case SSDB_E_VERSION:
		return "is not the state of a simulated drive, or of another version";
	case SSDB_E_TORN:
		return "is torn: its last user died in the middle of a request";
	case SSDB_E_MEMORY:
		return "is truncated";
	default:
		return "cannot be used";
	}
}

/*
 * A page of the state that the disk cannot give. Its blocks are allocated, which does not help on
 * a file system that copies on write, or when somebody cuts the file off.
 */
static void no_page(int number, siginfo_t *info, void *context)
{
	char *at = info->si_addr;

	(void)context;
	if (at >= state && at < state + state_bytes)
		vt_die(VT_EXIT_DISK, "%s has lost a page: its disk is full or fails, or the file was "
		       "cut off", vt_config.state_path);
	signal(number, SIG_DFL);	/* none of ours: the access is made again and ends fio */
}

static void map_state(int fd, const char *path)
{
	struct sigaction on_bus = {.sa_sigaction = no_page, .sa_flags = SA_SIGINFO};
	struct stat st;
	int error;

	if (fstat(fd, &st))
		vt_die(VT_EXIT_STATE, "%s: %s", path, strerror(errno));
	if (!st.st_size)
		vt_die(VT_EXIT_STATE, "%s is truncated: the file is empty", path);
	/* In real time the first touch of a page would show as latency. */
	state_bytes = (size_t)st.st_size;
	state = mmap(NULL, state_bytes, PROT_READ | PROT_WRITE,
		     MAP_SHARED | (vt_config.mode == VT_REAL ? MAP_POPULATE : 0), fd, 0);
	if (state == (char *)MAP_FAILED)
		vt_die(VT_EXIT_STATE, "%s cannot be mapped: %s", path, strerror(errno));
	sigaction(SIGBUS, &on_bus, NULL);
	madvise(state, state_bytes, MADV_HUGEPAGE);
	error = ssdb_attach(state, (u64)state_bytes);
	if (error)
		vt_die(VT_EXIT_STATE, "%s %s", path, sentence(error));
}

/* Ours, or one that our parent has locked already: a lock belongs to the open file. */
static int open_state(const char *path)
{
	struct stat given, named;
	int fd = vt_config.state_fd;

	if (fd < 0)
		fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &given) || stat(path, &named))
		vt_die(VT_EXIT_STATE, "%s: %s", path, strerror(errno));
	if (given.st_dev != named.st_dev || given.st_ino != named.st_ino)
		vt_die(VT_EXIT_STATE, "SSDB_VT_STATE_FD is not %s", path);
	if (flock(fd, LOCK_EX | LOCK_NB))
		vt_die(VT_EXIT_STATE, "%s is in use by another process", path);
	return fd;
}

/*
 * The checksums beside a state hold for bytes that nobody has used since they were saved. A parent
 * that shares the drive with us has checked and removed them; a fio on its own removes them here.
 */
static void forget_saved(const char *path)
{
	const char *suffix = ".ssdb";
	char saved[PATH_MAX];
	size_t stem = strlen(path) - strlen(suffix);
	int length;

	if (strlen(path) < strlen(suffix) || strcmp(path + stem, suffix))
		return;
	length = snprintf(saved, sizeof(saved), "%.*s.saved", (int)stem, path);
	if (length >= (int)sizeof(saved) || (unlink(saved) && errno != ENOENT))
		vt_die(VT_EXIT_STATE, "the checksums beside %s cannot be removed: %s", path,
		       length >= (int)sizeof(saved) ? "the name is too long" : strerror(errno));
}

void vt_drive_open(void)
{
	const char *path = vt_config.state_path;
	int fd = open_state(path);

	if (vt_config.state_fd < 0)
		forget_saved(path);
	map_state(fd, path);	/* fd stays open: it holds the lock */
	if (vt_config.data_path) {
		data_fd = open(vt_config.data_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (data_fd < 0 || ftruncate(data_fd, (off_t)ssdb_capacity_bytes(state)))
			vt_die(VT_EXIT_STATE, "%s: %s", vt_config.data_path, strerror(errno));
	}
}

void vt_drive_start(u64 now_ns)
{
	device_start_ns = ssdb_now_ns(state);
	fio_start_ns = now_ns;
}

/*
 * fio has waited for its last completions, so the next start comes after them: without this the
 * drive's clock would stand at the last arrival, and a deep queue would delay the next job.
 */
void vt_drive_end(u64 now_ns)
{
	if (now_ns > fio_start_ns)
		ssdb_idle(state, device_start_ns + (now_ns - fio_start_ns));
}

u64 vt_drive_bytes(void)
{
	return ssdb_capacity_bytes(state);
}

bool vt_drive_has_data(void)
{
	return data_fd >= 0;
}

/* What a block layer would tell fio; 0 for a drive that is at fault itself. */
int vt_drive_errno(u32 error)
{
	switch (error) {
	case SSDB_OK:
		return 0;
	case SSDB_E_RANGE:
	case SSDB_E_ALIGN:
	case SSDB_E_SIZE:
	case SSDB_E_OP:
		return EINVAL;
	case SSDB_E_NOSPACE:
		return ENOSPC;
	default:
		return EIO;
	}
}

void vt_drive_submit(u64 now_ns, const struct ssdb_cmd *cmd, struct ssdb_done *done)
{
	u64 device_ns = device_start_ns + (now_ns - fio_start_ns);

	ssdb_submit(state, device_ns, cmd, done);
	if (done->error == SSDB_E_TORN || done->error == SSDB_E_VERSION)
		vt_die(VT_EXIT_STATE, "%s %s", vt_config.state_path, sentence((int)done->error));
	/* Back to fio's clock; a refused request takes no time. */
	if (done->done_ns < device_ns)
		done->done_ns = device_ns;
	done->done_ns -= device_start_ns - fio_start_ns;
}

static void transfer(const struct ssdb_cmd *cmd, char *buffer)
{
	u64 moved = 0;

	while (moved < cmd->bytes) {
		off_t at = (off_t)(cmd->offset + moved);
		ssize_t n = cmd->op == SSDB_READ
			? pread(data_fd, buffer + moved, cmd->bytes - moved, at)
			: pwrite(data_fd, buffer + moved, cmd->bytes - moved, at);

		if (n <= 0)
			vt_die(n ? VT_EXIT_DISK : VT_EXIT_STATE, "%s: %s", vt_config.data_path,
			       n ? strerror(errno) : "shorter than the drive");
		moved += (u64)n;
	}
}

/* Contents, where they are kept; else a read only shows which block it is. */
void vt_drive_data(const struct ssdb_cmd *cmd, void *buffer)
{
	if (data_fd < 0) {
		if (cmd->op == SSDB_READ && cmd->bytes >= sizeof(cmd->offset))
			memcpy(buffer, &cmd->offset, sizeof(cmd->offset));
		return;
	}
	if (cmd->op == SSDB_READ || cmd->op == SSDB_WRITE)
		transfer(cmd, buffer);
	else if (cmd->op == SSDB_TRIM)
		fallocate(data_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)cmd->offset, (off_t)cmd->bytes);
}
