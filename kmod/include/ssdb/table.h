/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tables in binary attributes: lines of "name index count". configfs asks for the size first,
 * without a buffer, then hands out as many bytes as it was told, whatever has been written: so the
 * rest is filled with empty lines, and a line that came meanwhile is left out if it does not fit.
 */
#ifndef SSDB_TABLE_H
#define SSDB_TABLE_H

#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>

#define SSDB_TABLE_LINE		48	/* more than the longest line */
#define SSDB_TABLE_SPARE	16	/* lines that may come between the two questions */

/* Bytes of one line, at `length` of the buffer. */
static inline size_t ssdb_table_line(char *buffer, size_t size, size_t length, const char *name,
				     int index, u64 count)
{
	if (!buffer)
		return SSDB_TABLE_LINE;
	if (size - length < SSDB_TABLE_LINE)
		return 0;
	return scnprintf(buffer + length, size - length, "%s %d %llu\n", name, index, count);
}

/* The size of the whole table. */
static inline size_t ssdb_table_end(char *buffer, size_t size, size_t length)
{
	if (!buffer)
		return length + SSDB_TABLE_SPARE * SSDB_TABLE_LINE;
	memset(buffer + length, '\n', size - length);
	return size;
}

#endif
