#!/bin/sh
# The first process of a user-mode Linux: makes what a test run needs, runs it, says its exit status, and turns the kernel off.
# The root is the host's, read-only; from the kernel's command line come TEST_PYTHON, TEST_FOLDER (this one) and TEST_PROJECT.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/tmp PYTHONDONTWRITEBYTECODE=1 HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis
mount -t proc proc /proc
mount -t sysfs sys /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
mkdir -p /dev/shm
for place in /tmp /run /var/tmp /dev/shm; do mount -t tmpfs tmp "$place"; done
mkdir -p /run/netns
ip link set lo up
cd "$TEST_PROJECT" || exit
"$TEST_PYTHON" "$TEST_FOLDER/modules.py" veth tun nf_tables sch_prio sch_tbf sch_netem cls_u32 act_skbedit &&
    PYTHONPATH=$TEST_PROJECT "$TEST_PYTHON" -m pytest -p no:cacheprovider --color=no -m namespaces -k netem tests/clusters/conformance/test_packets.py
echo "the tests in user-mode Linux ended with $?"
sync
echo o >/proc/sysrq-trigger
sleep 60
