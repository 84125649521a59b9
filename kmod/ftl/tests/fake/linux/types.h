/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The kernel's names that the core uses, for compiling it as the kernel would without the kernel. */
#ifndef FAKE_LINUX_TYPES_H
#define FAKE_LINUX_TYPES_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed long long s64;

#endif
