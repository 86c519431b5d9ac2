"""The part of the packaging that pyproject.toml cannot express: packages and examples."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(
            include=["farm*", "workers*", "provisioner*"],
            exclude=["*.tests*"],
        ),
        "farm.examples",
    ],
    package_dir={"farm.examples": "examples"},
)
