/* SPDX-License-Identifier: GPL-2.0-only */
/* The few kernel names that pure files use, for user space. */
#ifndef FAKE_LINUX_TYPES_H
#define FAKE_LINUX_TYPES_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#endif
