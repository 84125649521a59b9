/* SPDX-License-Identifier: MIT */
/* The C library's own functions, below the ones that we put before them. */
#ifndef SSDB_VT_REAL_H
#define SSDB_VT_REAL_H

#include <dlfcn.h>

void *vt_next(const char *name, const char *version);

/* Declares `real`, the next definition of NAME; looked up once. */
#define VT_REAL(name) VT_REAL_VERSION(name, NULL)
#define VT_REAL_VERSION(name, version)					\
	static __typeof__(name) *real;					\
	if (__builtin_expect(!real, 0))					\
		real = (__typeof__(name) *)vt_next(#name, version)

/* glibc keeps an ancient pthread_cond_wait beside the one that everybody means. */
#if defined(__x86_64__)
#define VT_COND_VERSION "GLIBC_2.3.2"
#else
#define VT_COND_VERSION NULL
#endif

#endif
