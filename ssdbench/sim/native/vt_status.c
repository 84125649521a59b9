// SPDX-License-Identifier: MIT
/*
 * fio looks for /tmp/fio-dump-status a hundred times a second, and prints a report when somebody
 * has made it. In virtual time that is a system call for every 10 ms that nobody waits for, and a
 * way for the rest of the machine to change the result.
 */
#include "vt.h"
#include "vt_real.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static bool is_status_file(const char *path)
{
	const char *name = strrchr(path, '/');

	return name && !strcmp(name, "/fio-dump-status");
}

VT_EXPORT int stat64(const char *path, struct stat64 *found)
{
	VT_REAL(stat64);

	if (vt_mode == VT_VIRTUAL && is_status_file(path)) {
		errno = ENOENT;
		return -1;
	}
	return real(path, found);
}
