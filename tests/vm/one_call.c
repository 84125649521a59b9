// SPDX-License-Identifier: GPL-2.0-only
/*
 * The one call of the kernel in which a fault may come. fail_nth.py loads it: between arming and
 * disarming an interpreter would need memory itself, and end with a fault of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Answers what the call does, or -errno; `left`: chances until the fault, 0: it has come. */
long one_call(int fail_nth, unsigned int nth, unsigned int *left, long number, long a, long b,
	      long c, long d)
{
	char text[16] = "", zero[] = "0";
	int length = snprintf(text, sizeof(text), "%u", nth);
	long answer, error;

	if (syscall(SYS_pwrite64, fail_nth, text, length, 0) != length)
		return -errno;
	answer = syscall(number, a, b, c, d);
	error = errno;
	length = (int)syscall(SYS_pread64, fail_nth, text, sizeof(text) - 1, 0);
	syscall(SYS_pwrite64, fail_nth, zero, 1, 0);
	text[length > 0 ? length : 0] = 0;
	*left = (unsigned int)strtoul(text, NULL, 10);
	return answer < 0 ? -error : answer;
}
