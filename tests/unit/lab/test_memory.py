from ssdbench.lab.memory import dependencies, directories, needs

LDD = """\
\tlinux-vdso.so.1 (0x00007ffd3a5f2000)
\tlibtinfo.so.6 => /lib/x86_64-linux-gnu/libtinfo.so.6 (0x00007f0c0f1c5000)
\tlibgone.so.1 => not found
\t/lib64/ld-linux-x86-64.so.2 (0x00007f0c0f36b000)
"""


def test_a_program_needs_its_libraries_and_what_loads_them() -> None:
    assert needs(LDD) == ["/lib/x86_64-linux-gnu/libtinfo.so.6", "/lib64/ld-linux-x86-64.so.2"]
    assert needs("\tnot a dynamic executable\n") == []


def test_directories_come_before_what_lies_in_them() -> None:
    assert directories(["usr/lib/a/b.so", "init"]) == ["bin", "usr", "usr/lib", "usr/lib/a"]


def test_each_module_needs_those_before_it_the_nearest_first() -> None:
    assert dependencies(["a.ko", "b.ko", "c.ko"]) == "a.ko:\nb.ko: a.ko\nc.ko: b.ko a.ko\n"
