# SPDX-License-Identifier: GPL-2.0-only
# $(call ssdb-have,DIRECTORY,FLAGS): -DSSDB_HAVE_X for each DIRECTORY/X.c that compiles with the
# headers at hand. All at once, since each takes a fifth of a second.
ssdb-cc = $(CC) $(NOSTDINC_FLAGS) $(LINUXINCLUDE) -include $(srctree)/include/linux/compiler_types.h \
	  $(KBUILD_CPPFLAGS) $(KBUILD_CFLAGS) $(KBUILD_CFLAGS_MODULE) -DKBUILD_MODNAME='"probe"' \
	  -DKBUILD_BASENAME='"probe"' -Wno-error -Werror=implicit-function-declaration \
	  -Werror=incompatible-pointer-types -Werror=int-conversion -fsyntax-only
ssdb-have = $(shell for probe in $(1)/*.c; do $(ssdb-cc) $(2) $$probe 2> /dev/null && \
		    echo -DSSDB_HAVE_$$(basename $$probe .c) & done; wait)
