#!/usr/bin/env bash
# Make an emulated aarch64 Python in FOLDER, with prograd installed from this checkout: make_tree.sh FOLDER
#
# Needs Debian's qemu-user-static and debootstrap (apt-get install qemu-user-static debootstrap), about 1 GB of disk and
# a minute. Nothing is registered in the kernel and nothing needs root once the packages are there: the packages of an
# arm64 Debian are unpacked, not installed, and FOLDER/python starts the interpreter through qemu.
set -euo pipefail
folder=$(realpath -m "$1")
checkout=$(realpath "$(dirname "$0")/../..")
mkdir -p "$folder"
for tool in qemu-aarch64-static debootstrap dpkg-deb; do
    command -v "$tool" >/dev/null || { echo "make_tree.sh: install qemu-user-static and debootstrap" >&2; exit 2; }
done

if [ ! -e "$folder/root/usr/bin/python3" ]; then
    mirror=$({ grep -rhoE '^(URIs:|deb) [^ ]+' /etc/apt/ || true; } | awk '$2 ~ /debian\/?$/ {print $2; exit}')
    suite=$(. /etc/os-release; echo "$VERSION_CODENAME")
    debootstrap --arch=arm64 --foreign --variant=minbase --include=python3 \
        "$suite" "$folder/root" "${mirror:-http://deb.debian.org/debian}" >"$folder/log"  # its first stage fetches
    for package in "$folder"/root/var/cache/apt/archives/*.deb; do
        dpkg-deb -x "$package" "$folder/root"
    done
fi

python=$(basename "$(ls "$folder"/root/usr/bin/python3.*[0-9] | head -1)")
platforms=$(for tag in 2014 _2_17 _2_27 _2_28; do echo "--platform manylinux${tag}_aarch64"; done)
rm -rf "$folder/site" "$folder/wheel"
"${HOST_PYTHON:-python3}" -m pip wheel -q --no-deps -w "$folder/wheel" "$checkout"
# The plain install: the wheel and what its metadata asks for, as wheels of that platform.
# shellcheck disable=SC2086
"${HOST_PYTHON:-python3}" -m pip install -q --target "$folder/site" --only-binary=:all: $platforms \
    --python-version "${python#python}" --implementation cp \
    "$(ls "$folder"/wheel/prograd-*.whl)[native]" pytest pytest-xdist hypothesis mpmath ml_dtypes pillow
echo 'import os, sys; sys.executable = os.environ["EMULATED_PYTHON"]  # so that tests start emulated processes' \
    >"$folder/site/sitecustomize.py"
cat >"$folder/python" <<END
#!/bin/sh
export EMULATED_PYTHON="$folder/python" PYTHONPATH="$folder/site\${PYTHONPATH:+:\$PYTHONPATH}"
exec qemu-aarch64-static -L "$folder/root" "$folder/root/usr/bin/$python" "\$@"
END
chmod +x "$folder/python"
"$folder/python" -c 'import numpy, platform, prograd; print(platform.machine(), numpy.__version__, prograd.__file__)'
