// SPDX-License-Identifier: MIT
/*
 * What cannot be honoured is refused with a sentence, before anything runs.
 *
 * Command line and job files are read for the sentence; what slips through (an abbreviated or
 * included option) is caught where it shows in fio's behaviour.
 */
#include "vt.h"
#include "vt_real.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct rule {
	const char *option;
	const char *only;	/* refused with this value; NULL: with every one but `but` */
	const char *but, *or_but;
	const char *reason;
};

static const struct rule rules[] = {
	{ "io_submit_mode", "offload", NULL, NULL, "fio's nbd engine crashes with it" },
	{ "create_serialize", "0", NULL, NULL, "fio's nbd engine crashes with it" },
	{ "gtod_cpu", NULL, NULL, NULL, "a thread that only copies the clock would show stale times" },
	{ "idle-prof", NULL, "none", NULL, "its threads spin for ever in virtual time" },
	{ "clocksource", NULL, "clock_gettime", "gettimeofday",
	  "the processor's clock is not the drive's; use clocksource=clock_gettime" },
	{ "ioengine", NULL, "nbd", NULL, "only ioengine=nbd with uri=sim: reaches the drive" },
	{ "server", NULL, NULL, NULL, "a server would run jobs outside virtual time" },
	{ "client", NULL, NULL, NULL, "the jobs would run elsewhere" },
};

#define SHORTEST_ABBREVIATION 4	/* getopt takes any that is not ambiguous */

static bool is(const char *a, const char *b)
{
	return b && !strcasecmp(a, b);
}

static bool names(const char *given, const char *option, bool abbreviated)
{
	size_t n = strlen(given);

	return is(given, option) ||
	       (abbreviated && n >= SHORTEST_ABBREVIATION && !strncasecmp(given, option, n));
}

static void refuse(const char *option, const char *value, const char *reason)
{
	vt_die(VT_EXIT_REFUSED, "the simulated drive cannot serve %s%s%s: %s", option,
	       *value ? "=" : "", value, reason);
}

static void check(const char *option, const char *value, bool abbreviated)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
		const struct rule *r = &rules[i];

		if (!names(option, r->option, abbreviated))
			continue;
		if (r->only ? is(value, r->only) : !is(value, r->but) && !is(value, r->or_but))
			refuse(r->option, value, r->reason);
	}
	if (is(option, "verify") && !vt_drive_has_data() && !is(value, "none") && !is(value, "0"))
		refuse(option, value, "it keeps no data; set SSDB_VT_DATA to a file that keeps it");
}

/* "option = value" with blanks anywhere; changes the line. */
static void check_line(char *line, bool abbreviated)
{
	char *value, *end;

	while (isspace((unsigned char)*line))
		line++;
	if (!*line || strchr("#;[", *line))
		return;
	line[strcspn(line, "\r\n#;")] = 0;
	value = strchr(line, '=');
	if (value)
		*value++ = 0;
	else
		value = line + strlen(line);
	while (isspace((unsigned char)*value))
		value++;
	for (end = value + strlen(value); end > value && isspace((unsigned char)end[-1]);)
		*--end = 0;
	line[strcspn(line, " \t")] = 0;
	check(line, value, abbreviated);
}

static void check_job_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;

	if (!file)
		return;		/* fio says so itself */
	while (getline(&line, &room, file) >= 0)
		check_line(line, false);
	free(line);
	fclose(file);
}

/* Options that take their value as the next argument would look like job files; fio wants "=". */
static void check_argument(char *argument)
{
	if (argument[0] != '-')
		check_job_file(argument);
	else if (argument[1])
		check_line(argument + strspn(argument, "-"), true);
}

void vt_refuse_options(void)
{
	FILE *file = fopen("/proc/self/cmdline", "re");
	char *argument = NULL;
	size_t room = 0;
	bool program = true;

	if (!file)
		return;
	while (getdelim(&argument, &room, 0, file) > 0) {
		if (!program)
			check_argument(argument);
		program = false;
	}
	free(argument);
	fclose(file);
}

static int value_of(const char *symbol)
{
	int *variable = dlsym(RTLD_DEFAULT, symbol);

	return variable ? *variable : 0;
}

/* The main thread starts a thread or forks: with jobs set up, that is a job (or the helper). */
void vt_refuse_at_start_of_job(void)
{
	static unsigned int started;
	unsigned int jobs = (unsigned int)value_of("thread_number");

	if (vt_s->current || !jobs)
		return;
	if (value_of("fio_gtod_offload"))
		refuse("gtod_cpu", "", "a thread that only copies the clock would show stale times");
	if (started++ && vt_s->setups < jobs)
		vt_die(VT_EXIT_REFUSED, "the simulated drive serves jobs with ioengine=nbd and "
		       "create_serialize=1 only; %u of %u are others", jobs - vt_s->setups, jobs);
}

/* nbd handles are made by the main thread to ask for the size, then by each job. */
void vt_refuse_at_open(void)
{
	enum { CS_CPUCLOCK = 3 };

	if (vt_mode != VT_VIRTUAL)
		return;
	if (value_of("fio_clock_source") == CS_CPUCLOCK)
		refuse("clocksource", "cpu",
		       "the processor's clock is not the drive's; use clocksource=clock_gettime");
	if (!vt_s->current)
		vt_s->setups++;
	else if (++vt_s->opens > vt_s->setups)
		vt_die(VT_EXIT_REFUSED, "the simulated drive cannot serve io_submit_mode=offload "
		       "or create_serialize=0: fio's nbd engine crashes with them");
}
