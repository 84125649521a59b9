// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * ssdb-nbd: the simulated drive as an NBD server on a unix socket, in real time.
 *
 * One thread, one epoll loop, any number of connections (each sees the writes of the others, so
 * NBD_FLAG_CAN_MULTI_CONN holds).
 */
#define _GNU_SOURCE
#include "nbd.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READ_STEP (256u << 10)
#define DRAIN_NS 10000000000ull		/* at the end: at most this long for answers under way */
#define CALIBRATE_ROUNDS 1000

static struct {
	int epoll_fd, listen_fd, signal_fd;
	struct nbd_connection *connections;
	bool ending;
} server;

static int wait_events(struct epoll_event *events, int count, u64 timeout_ns)
{
	struct timespec span = {timeout_ns / FRONT_NS_PER_S, (long)(timeout_ns % FRONT_NS_PER_S)};
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

/* ---- connections ---- */

static bool must_wait(const struct nbd_connection *c)
{
	return c->finished || c->inflight >= NBD_MAX_INFLIGHT || nbd_held(&c->out) > NBD_MAX_HELD;
}

static void receive(struct nbd_connection *c)
{
	ssize_t got;

	if (must_wait(c))
		return;
	if (!nbd_reserve(&c->in, READ_STEP)) {
		c->dead = true;
		return;
	}
	got = recv(c->fd, c->in.data + c->in.end, c->in.room - c->in.end, MSG_DONTWAIT);
	if (!got || (got < 0 && errno != EAGAIN && errno != EINTR))
		c->dead = true;
	else if (got > 0)
		c->in.end += (size_t)got;
	while (nbd_take(c))
		;
}

static void flush_out(struct nbd_connection *c)
{
	ssize_t sent;

	while (!c->dead && nbd_held(&c->out)) {
		sent = send(c->fd, c->out.data + c->out.start, nbd_held(&c->out),
			    MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (sent < 0)
			c->dead = true;
		else
			nbd_consume(&c->out, (size_t)sent);
	}
}

static void watch(struct nbd_connection *c)
{
	struct epoll_event event = {.data.ptr = c};

	event.events = (must_wait(c) || server.ending ? 0 : EPOLLIN) |
		       (nbd_held(&c->out) ? EPOLLOUT : 0);
	if (event.events == c->events)
		return;
	c->events = event.events;
	epoll_ctl(server.epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
}

static void greet(int fd)
{
	struct nbd_connection *c = calloc(1, sizeof(*c));
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
	nbd_greet(c);
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
	struct nbd_connection **link = &server.connections, *c;

	while ((c = *link)) {
		while (!must_wait(c) && nbd_take(c))
			;
		flush_out(c);
		if (c->finished && !c->inflight && !nbd_held(&c->out))
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
	u64 now_ns = front_device_ns();
	struct front_request r;

	while (front_next_due(&r, now_ns))
		nbd_answer(&r);
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
		((struct nbd_connection *)event->data.ptr)->dead = true;
}

static bool all_sent(void)
{
	const struct nbd_connection *c;

	for (c = server.connections; c; c = c->next)
		if (!c->dead && nbd_held(&c->out))
			return false;
	return !front_under_way();
}

static void serve(void)
{
	struct epoll_event events[64];
	u64 ends_ns = 0;
	int count, index;

	for (;;) {
		count = wait_events(events, 64, front_sleep_ns());
		if (count < 0 && errno != EINTR)
			front_die_errno("cannot wait for requests");
		for (index = 0; index < count; index++)
			dispatch(&events[index]);
		answer_due();
		tend_connections();
		if (!count && !front_under_way())
			ssdb_idle(front_device.state, front_device_ns());
		else if (!count)
			sched_yield();
		if (!server.ending)
			continue;
		if (!ends_ns)
			ends_ns = front_clock_ns() + DRAIN_NS;
		if (all_sent() || front_clock_ns() > ends_ns)
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
		began_ns = front_clock_ns();
		if (write(pair[0], message, 28) != 28 || read(pair[0], message, 16) != 16)
			break;
		took_ns[round] = front_clock_ns() - began_ns;
	}
	close(pair[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	if (round < CALIBRATE_ROUNDS)
		return 0;
	return front_median(took_ns, CALIBRATE_ROUNDS);
}

/* ---- start and end ---- */

static void listen_on(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		front_die("the path of a unix socket has at most 107 characters");
	strcpy(address.sun_path, path);
	if (!connect(probe, (void *)&address, sizeof(address)))
		front_die("another server answers on this socket");
	if (errno == ECONNREFUSED)
		unlink(path);	/* its server is gone */
	close(probe);
	server.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server.listen_fd < 0 || bind(server.listen_fd, (void *)&address, sizeof(address)) ||
	    listen(server.listen_fd, 128))
		front_die_errno(path);
}

static void watch_fd(int fd, void *tag)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};

	if (fd < 0 || epoll_ctl(server.epoll_fd, EPOLL_CTL_ADD, fd, &event))
		front_die_errno("cannot watch for requests");
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
	front_say_lateness();
	front_device_save();
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
		case 'e': nbd_export_name = optarg; break;
		case 'o': overhead = optarg; break;
		default: usage();
		}
	}
	if (!state || !socket_path || optind != argc)
		usage();
	front_device_open(state, data);
	front_overhead_ns = overhead ? strtoull(overhead, NULL, 10) : round_trip_ns();
	server.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	watch_signals();
	listen_on(socket_path);
	watch_fd(server.listen_fd, &server.listen_fd);
	fprintf(stderr, "ssdb-nbd: ready on %s, taking %llu ns off each request\n", socket_path,
		(unsigned long long)front_overhead_ns);
	serve();
	return finish(socket_path);
}
