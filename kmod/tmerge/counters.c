// SPDX-License-Identifier: GPL-2.0-only
/* What happened: how many requests went in how many commands, and where their time went. */
#include "../include/ssdb/table.h"
#include "tmerge.h"

static const char *const tmerge_ways[] = { "read", "write" };
static const char *const tmerge_phase_names[TMERGE_PHASES] = { "wait", "device", "total" };

void tmerge_count_command(struct tmerge_command *command)
{
	struct tmerge_counters *counters = &command->tmerge->counters;

	counters->commands[command->write]++;
	counters->merges[command->write][command->vector.count]++;
}

static void tmerge_count_phase(struct tmerge_counters *counters, enum tmerge_phase phase, u64 ns)
{
	counters->phase_ns[phase] += ns;
	counters->phases[phase][ssdb_hist_bin(ns)]++;
}

void tmerge_count_io(struct tmerge_io *io, u64 done_ns)
{
	struct tmerge_counters *counters = &io->tmerge->counters;

	counters->ios[io->write]++;
	counters->sync[io->write] += io->sync;
	tmerge_count_phase(counters, TMERGE_WAIT, io->sent_ns - io->entered_ns);
	tmerge_count_phase(counters, TMERGE_DEVICE, done_ns - io->sent_ns);
	tmerge_count_phase(counters, TMERGE_TOTAL, ktime_get_ns() - io->entered_ns);
}

ssize_t tmerge_print_counters(struct tmerge *tmerge, char *page)
{
	struct tmerge_counters *c = &tmerge->counters;
	ssize_t length = 0;
	int i;

	for (i = 0; i < 2; i++)
		length += sysfs_emit_at(page, length,
					"%s_ios %llu\n%s_commands %llu\n%s_sync %llu\n",
					tmerge_ways[i], c->ios[i], tmerge_ways[i], c->commands[i],
					tmerge_ways[i], c->sync[i]);
	for (i = 0; i < TMERGE_PHASES; i++)
		length += sysfs_emit_at(page, length, "%s_ns %llu\n", tmerge_phase_names[i],
					c->phase_ns[i]);
	length += sysfs_emit_at(page, length, "passed %llu\nheld %llu\nwinners %llu\nlosers %llu\n",
				c->passed, c->held, c->winners, c->losers);
	length += sysfs_emit_at(page, length, "no_slot %llu\nerrors %llu\ninside %d\n", c->no_slot,
				c->errors, atomic_read(&tmerge->inside));
	return length;
}

size_t tmerge_print_merges(struct tmerge *tmerge, char *buffer, size_t size)
{
	size_t length = 0;
	int way, n;

	for (way = 0; way < 2; way++)
		for (n = 1; n <= SSDB_VECTOR_MAX; n++) {
			u64 count = READ_ONCE(tmerge->counters.merges[way][n]);

			if (count)
				length += ssdb_table_line(buffer, size, length,
							  tmerge_ways[way], n, count);
		}
	return ssdb_table_end(buffer, size, length);
}

size_t tmerge_print_phases(struct tmerge *tmerge, char *buffer, size_t size)
{
	size_t length = 0;
	int phase, bin;

	for (phase = 0; phase < TMERGE_PHASES; phase++)
		for (bin = 0; bin < SSDB_HIST_BINS; bin++) {
			u64 count = READ_ONCE(tmerge->counters.phases[phase][bin]);

			if (count)
				length += ssdb_table_line(buffer, size, length,
							  tmerge_phase_names[phase], bin, count);
		}
	return ssdb_table_end(buffer, size, length);
}
