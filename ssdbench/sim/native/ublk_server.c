// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * ssdb-ublk: the simulated drive as the block device /dev/ublkbN, in real time, by the kernel's own
 * ublk driver (Documentation/block/ublk.rst). If this program dies, the driver fails what is under
 * way and removes the disk; --detach then frees its number.
 *
 * One thread, one queue and one ring, which also takes the control commands: the device is started
 * and stopped while its requests are served, because the kernel reads partitions meanwhile.
 */
#define _GNU_SOURCE
#include "ublk.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef UBLK_F_UNPRIVILEGED_DEV
#define UBLK_F_UNPRIVILEGED_DEV (1ull << 5)	/* Linux 6.3 */
#endif
#define GET_DEV_INFO2 0x12		/* Linux 6.3 */
#define DEL_DEV_ASYNC 0x14		/* Linux 6.9 */
#define PATH_LENGTH_AT 24		/* dev_path_len in struct ublksrv_ctrl_cmd, Linux 6.3 */
#define OURS 0x484342554244535full	/* ublksrv_flags of our devices; the driver only keeps them */
#define NODE_WAIT_NS 5000000000ull	/* for udev to make a node and hand it to its owner */
#define MEASURE_ROUNDS 1000		/* fewer where they take longer than a second */
#define MEASURE_LEAST 15
#define MEASURE_BYTES (1u << 20)
#define LONGEST_BYTES (1u << 30)	/* of a TRIM; its size is 32 bits in the drive's requests */

static struct ublk_left left_by_writes[UBLK_DEPTH];
static struct {
	struct ublk_queue queue;
	int control_fd;
	bool answered;			/* the control command, with `result` */
	int result;
	u32 device;			/* N of /dev/ublkbN */
	char late_path[4096];
} server;
static volatile sig_atomic_t ending;

/* ---- one turn of the loop ---- */

static void turn(void)
{
	struct ublk_queue *queue = &server.queue;
	struct io_uring_cqe cqe;
	bool idle = true;

	ublk_ring_enter(&queue->ring, front_sleep_ns());
	for (; ublk_ring_take(&queue->ring, &cqe); idle = false) {
		if (cqe.user_data & UBLK_OF_CONTROL) {
			server.answered = true;
			server.result = cqe.res;
		} else {
			ublk_completed(queue, &cqe);
		}
	}
	ublk_answer_due(queue);
	if (idle && front_under_way())
		sched_yield();
	else if (idle && front_device.state)
		ssdb_idle(front_device.state, front_device_ns());
}

/* ---- control commands ---- */

/* Answers 0 or a negative errno; a device of another user than root is named by its path, too. */
static int control(u32 command, void *payload, size_t bytes, u64 value)
{
	struct io_uring_sqe *sqe = ublk_ring_add(&server.queue.ring);
	struct ublksrv_ctrl_cmd *cmd = (void *)sqe->cmd;
	char given[256] = "";
	bool named = geteuid() && command != CONTROL(UBLK_CMD_ADD_DEV);
	u16 path = named ? (u16)(sprintf(given, "/dev/ublkc%u", server.device) + 1) : 0;

	if (bytes)
		memcpy(given + path, payload, bytes);
	sqe->fd = server.control_fd;
	sqe->cmd_op = command;
	sqe->user_data = UBLK_OF_CONTROL;
	cmd->dev_id = server.device;
	cmd->queue_id = (u16)-1;
	cmd->addr = (u64)(uintptr_t)given;
	cmd->len = (u16)(path + bytes);
	cmd->data[0] = value;
	memcpy((u8 *)cmd + PATH_LENGTH_AT, &path, sizeof(path));
	for (server.answered = false; !server.answered;)
		turn();
	if (bytes)
		memcpy(payload, given + path, bytes);
	return server.result;
}

static _Noreturn void refuse(const char *what, int result)
{
	errno = -result;
	front_die_errno(what);
}

static void open_control(void)
{
	server.control_fd = open("/dev/ublk-control", O_RDWR | O_CLOEXEC);
	if (server.control_fd < 0)
		front_die_errno("/dev/ublk-control");
	ublk_ring_open(&server.queue.ring, 2 * UBLK_DEPTH);
}

/* Whoever still has the disk open keeps its number; only kernels before 6.9 wait for them. */
static void remove_device(int disk_fd)
{
	control(CONTROL(UBLK_CMD_STOP_DEV), NULL, 0, 0);
	if (disk_fd >= 0)
		close(disk_fd);
	while (server.queue.fetching)
		turn();
	if (server.queue.descriptors)
		munmap((void *)server.queue.descriptors, server.queue.depth * sizeof(struct ublksrv_io_desc));
	if (server.queue.fd >= 0)
		close(server.queue.fd);
	server.queue.descriptors = NULL;
	server.queue.fd = -1;
	/* Errors differ: kernels before 6.9 do not know it, 6.12 refuses it to others than root. */
	if (control(CONTROL_READ(DEL_DEV_ASYNC), NULL, 0, 0) < 0)
		control(CONTROL(UBLK_CMD_DEL_DEV), NULL, 0, 0);
}

/* ---- a device ---- */

static int open_node(const char *form, int flags)
{
	char path[32];
	u64 ends_ns = front_clock_ns() + NODE_WAIT_NS;
	int fd;

	snprintf(path, sizeof(path), form, server.device);
	do {
		fd = open(path, flags | O_CLOEXEC);
		if (fd < 0)
			nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	} while (fd < 0 && (errno == ENOENT || errno == EACCES) && front_clock_ns() < ends_ns);
	return fd;
}

static void add_device(u32 depth)
{
	struct ublksrv_ctrl_dev_info info = {
		.nr_hw_queues = 1, .queue_depth = (u16)depth, .max_io_buf_bytes = UBLK_MAX_BYTES,
		.dev_id = (u32)-1, .ublksrv_pid = getpid(), .ublksrv_flags = OURS,
		.flags = geteuid() ? UBLK_F_UNPRIVILEGED_DEV : 0,
	};
	struct ublk_queue *queue = &server.queue;
	int result;

	server.device = (u32)-1;
	result = control(CONTROL(UBLK_CMD_ADD_DEV), &info, sizeof(info), 0);
	if (result == -EOPNOTSUPP || result == -EINVAL)
		front_die("the ublk driver of this kernel is too old: Linux 6.4 or newer is needed");
	if (result)
		refuse("the ublk driver adds no device", result);
	server.device = info.dev_id;
	queue->depth = depth;
	queue->fd = open_node("/dev/ublkc%u", O_RDWR);
	queue->descriptors = queue->fd < 0 ? MAP_FAILED :
		mmap(NULL, depth * sizeof(struct ublksrv_io_desc), PROT_READ, MAP_SHARED | MAP_POPULATE,
		     queue->fd, UBLKSRV_CMD_BUF_OFFSET);
	if (queue->descriptors == MAP_FAILED) {
		result = -errno;
		queue->descriptors = NULL;
		remove_device(-1);
		refuse("the new device of ublk cannot be opened", result);
	}
	ublk_fetch_all(queue);
}

static void start_device(struct ublk_params *params)
{
	int result;

	params->len = sizeof(*params);
	params->types |= UBLK_PARAM_TYPE_BASIC;
	params->basic.max_sectors = UBLK_MAX_BYTES >> 9;
	result = control(CONTROL(UBLK_CMD_SET_PARAMS), params, sizeof(*params), 0);
	if (!result)
		result = control(CONTROL(UBLK_CMD_START_DEV), NULL, 0, (u64)getpid());
	if (result) {
		remove_device(-1);
		refuse("the ublk driver does not start the device", result);
	}
}

static u8 log2_of(u32 bytes)
{
	return (u8)__builtin_ctz(bytes);
}

static u64 parameter(const char *name)
{
	u64 value = 0;

	ssdb_param_get(ssdb_state_params(front_device.state), name, &value);
	return value;
}

static struct ublk_params params_of_drive(void)
{
	u8 block = log2_of(front_device.lba);
	bool volatile_cache = parameter("wbuf_volatile") && parameter("wbuf_bytes");
	struct ublk_params params = {
		.types = UBLK_PARAM_TYPE_DISCARD,
		.basic = {
			.attrs = volatile_cache ? UBLK_ATTR_VOLATILE_CACHE | UBLK_ATTR_FUA : 0,
			.logical_bs_shift = block, .physical_bs_shift = block,
			.io_opt_shift = block, .io_min_shift = block,
			.dev_sectors = front_device.capacity >> 9,
		},
		.discard = {
			.discard_granularity = front_device.lba, .max_discard_segments = 1,
			.max_discard_sectors = LONGEST_BYTES >> 9,
			.max_write_zeroes_sectors = LONGEST_BYTES >> 9,
		},
	};

	return params;
}

/* ---- what the way through the kernel adds ---- */

static u64 median_read_ns(void)
{
	static u8 block[4096] __attribute__((aligned(4096)));
	u64 took_ns[MEASURE_ROUNDS], began_ns, all_ns = 0;
	int round, fd = open_node("/dev/ublkb%u", O_RDONLY | O_DIRECT);

	for (round = 0; round < MEASURE_ROUNDS; round++) {
		if (round >= MEASURE_LEAST && all_ns > FRONT_NS_PER_S)
			break;
		began_ns = front_clock_ns();
		if (pread(fd, block, sizeof(block), 0) != sizeof(block))
			return 0;
		took_ns[round] = front_clock_ns() - began_ns;
		all_ns += took_ns[round];
	}
	return front_median(took_ns, (size_t)round);
}

/* The median time of a read from a device that answers at once; 0 when it cannot be measured. */
static u64 kernel_ns(void)
{
	struct ublk_params params = {.basic = {
		.logical_bs_shift = 12, .physical_bs_shift = 12, .io_opt_shift = 12,
		.io_min_shift = 12, .dev_sectors = MEASURE_BYTES >> 9,
	}};
	int pipe_fds[2];
	u64 found_ns = 0;
	pid_t child;

	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK))
		return 0;
	server.queue.answers_at_once = true;
	add_device(8);
	start_device(&params);
	child = fork();
	if (!child) {
		found_ns = median_read_ns();
		_exit(write(pipe_fds[1], &found_ns, sizeof(found_ns)) != sizeof(found_ns));
	}
	while (child > 0 && !waitpid(child, NULL, WNOHANG))
		turn();
	if (read(pipe_fds[0], &found_ns, sizeof(found_ns)) != sizeof(found_ns))
		found_ns = 0;
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	remove_device(-1);
	server.queue.answers_at_once = false;
	return found_ns;
}

/* ---- attach and detach ---- */

/*
 * Count lateness in a file, where others can read it while the device is used. The lock is kept
 * until this program ends, so that they can wait for its end.
 */
static void open_late(const char *directory)
{
	int fd;

	snprintf(server.late_path, sizeof(server.late_path), "%s/ublkb%u", directory, server.device);
	unlink(server.late_path);
	fd = open(server.late_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd >= 0 && !flock(fd, LOCK_EX) && !ftruncate(fd, sizeof(*front_late)))
		front_late = mmap(NULL, sizeof(*front_late), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	else
		front_late = MAP_FAILED;
	if (front_late == MAP_FAILED) {
		fd = errno;
		remove_device(-1);
		errno = fd;
		front_die_errno(server.late_path);
	}
	front_late->overhead_ns = front_overhead_ns;
	front_late->magic = FRONT_LATE_MAGIC;
}

static void note_end(int number)
{
	(void)number;
	ending = 1;
}

static void redirect(const char *log)
{
	int fd = open(log ? log : "/dev/null", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(fd < 0 ? null : fd, STDERR_FILENO);
}

/* Go on in a child; the parent ends when the child is ready, or with it. */
static int go_to_background(void)
{
	int ready[2], status;
	char word;
	pid_t child;

	if (pipe2(ready, O_CLOEXEC) || (child = fork()) < 0)
		front_die_errno("cannot start");
	if (!child) {
		setsid();
		close(ready[0]);
		return ready[1];
	}
	close(ready[1]);
	if (read(ready[0], &word, 1) == 1)
		_exit(0);
	waitpid(child, &status, 0);
	_exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1);
}

static void attach(const char *state, const char *data, const char *log, const char *late,
		   const char *overhead)
{
	struct ublk_params params;
	int ready = go_to_background();

	open_control();
	server.queue.left = left_by_writes;
	server.queue.buffers = mmap(NULL, (size_t)UBLK_DEPTH * UBLK_MAX_BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (server.queue.buffers == MAP_FAILED)
		front_die_errno("no memory for buffers");
	/* Most requests use a few pages of a buffer; the kernel would clear 2 MiB at the first one. */
	madvise(server.queue.buffers, (size_t)UBLK_DEPTH * UBLK_MAX_BYTES, MADV_NOHUGEPAGE);
	front_overhead_ns = overhead ? strtoull(overhead, NULL, 10) : kernel_ns();
	front_device_open(state, data);
	add_device(UBLK_DEPTH);
	if (late)
		open_late(late);
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = note_end}, NULL);
	sigaction(SIGINT, &(struct sigaction){.sa_handler = note_end}, NULL);
	params = params_of_drive();
	start_device(&params);
	printf("/dev/ublkb%u\n", server.device);
	fflush(stdout);
	redirect(log);
	fprintf(stderr, "ssdb-ublk: ready on /dev/ublkb%u, taking %llu ns off each request\n",
		server.device, (unsigned long long)front_overhead_ns);
	if (write(ready, "r", 1) != 1)
		ending = 1;	/* who started us is gone */
	close(ready);
	while (!ending && server.queue.fetching)
		turn();
	remove_device(-1);	/* or what --detach has left of it */
	front_say_lateness();
	front_device_save();
	if (late)
		unlink(server.late_path);
}

static void detach(const char *number)
{
	struct ublksrv_ctrl_dev_info info = {0};
	u32 command = geteuid() ? CONTROL_READ(GET_DEV_INFO2) : CONTROL_READ(UBLK_CMD_GET_DEV_INFO);
	char node[32];
	int fd, result;

	server.queue.fd = -1;
	server.device = (u32)strtoul(number, NULL, 10);
	snprintf(node, sizeof(node), "/dev/ublkb%u", server.device);
	open_control();
	result = control(command, &info, sizeof(info), 0);
	if (result == -ENODEV || result == -EINVAL || result == -ENOENT)
		front_die("the ublk driver has no such device");
	if (result)
		refuse("the ublk driver does not tell about the device", result);
	if (info.ublksrv_flags != OURS)
		front_die("another program's ublk device: only a device of `sim attach` is detached");
	fd = open(node, O_RDONLY | O_EXCL | O_CLOEXEC);
	if (fd < 0 && errno == EBUSY)
		front_die("the device is in use: it is mounted, or opened exclusively");
	remove_device(fd);
}

static _Noreturn void usage(void)
{
	fputs("usage: ssdb-ublk --state FILE [--data FILE] [--log FILE] [--late DIRECTORY]\n"
	      "                 [--overhead-ns N]\n"
	      "       ssdb-ublk --detach N\n"
	      "Prints the name of the block device and goes on in the background. Without --data,\n"
	      "what is read is zeros. --overhead-ns is what the kernel adds to each request on\n"
	      "this machine, and is taken off the drive's latency; without it, it is measured\n"
	      "first. --late is where a file with the lateness of all answers is kept.\n", stderr);
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"state", required_argument, NULL, 's'}, {"data", required_argument, NULL, 'd'},
		{"log", required_argument, NULL, 'l'}, {"late", required_argument, NULL, 'a'},
		{"overhead-ns", required_argument, NULL, 'o'},
		{"detach", required_argument, NULL, 'x'}, {0},
	};
	const char *state = NULL, *data = NULL, *log = NULL, *late = NULL, *overhead = NULL;
	const char *device = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's': state = optarg; break;
		case 'd': data = optarg; break;
		case 'l': log = optarg; break;
		case 'a': late = optarg; break;
		case 'o': overhead = optarg; break;
		case 'x': device = optarg; break;
		default: usage();
		}
	}
	if (!state == !device || optind != argc)
		usage();
	if (device)
		detach(device);
	else
		attach(state, data, log, late, overhead);
	return 0;
}
