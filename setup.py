"""The part of the packaging that pyproject.toml cannot express: examples, the compiled kernel."""

from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel

HAS_KERNEL = any(Path("farm/sim/fast/kernel").glob("kernel-*.so"))


class Farm(Distribution):
    """A distribution for one system if it carries the compiled kernel."""

    def has_ext_modules(self):  # noqa: D102 - setuptools'
        return HAS_KERNEL


class Wheel(bdist_wheel):
    """A wheel of this system, for every Python, if it carries the compiled kernel (`make dist`)."""

    def get_tag(self):  # noqa: D102 - likewise
        if not HAS_KERNEL:
            return super().get_tag()
        # the object needs no C library of a certain version, so any Linux with glibc will do
        system = super().get_tag()[2].replace("linux_", "manylinux_2_17_", 1)
        return "py3", "none", system


setup(
    packages=[
        *find_packages(
            include=["farm*", "workers*", "provisioner*", "studies*", "chaos*"],
            exclude=["*.tests*"],
        ),
        "farm.examples",
    ],
    package_dir={"farm.examples": "examples"},
    distclass=Farm,
    cmdclass={"bdist_wheel": Wheel},
)
