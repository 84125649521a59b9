// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The tables of the kinds of drive.
 */
#include "kinds.h"

const struct ftl_ops *const ftl_kinds[] = {
	[SSDB_FTL_PAGE] = &page_ops,
	[SSDB_FTL_BLOCKLOG] = &blocklog_ops,
	[SSDB_FTL_DIRECT] = &direct_ops,
};

void kind_geometry(const struct ssdb_params *p, struct geometry *g)
{
	geometry_of(p, g);
	if (ftl_kinds[p->ftl]->geometry)
		ftl_kinds[p->ftl]->geometry(p, g);
}
