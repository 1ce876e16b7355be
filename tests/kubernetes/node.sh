#!/bin/bash
# A node of the cluster, as the first process of its own namespaces (network, mounts, host name, processes), so that all
# of it ends with it: containerd, kube-proxy and kubelet with the files of its folder.
# usage: node.sh NAME FOLDER PROGRAMS CGROUP
set -eu
name=$1 folder=$2 programs=$3 cgroup=$4
hostname "$name"
until ip -brief address show dev eth0 2>/dev/null | grep -q /24; do sleep 0.05; done
sysctl -q -w net.ipv4.ip_forward=1
# Paths that kubelet and the plugins of the pods' network have no setting for.
mount --make-rshared /
mount --bind "$folder/kubelet" /var/lib/kubelet
mount --make-rshared /var/lib/kubelet
mount --bind "$folder/cni" /var/lib/cni
mkdir -p /run/netns "$folder/netns"
mount --bind "$folder/netns" /run/netns  # where containerd keeps those of pods, which would outlive the node
mount --make-rshared /run/netns
# Where cgroups are of version 1, a cpuset is empty until it is filled in.
for controller in /sys/fs/cgroup/*/; do
    [ -e "$controller/cgroup.clone_children" ] && mkdir -p "$controller/$cgroup"
done
[ -e /sys/fs/cgroup/cgroup.controllers ] && mkdir -p "/sys/fs/cgroup/$cgroup"
if [ -d /sys/fs/cgroup/cpuset ]; then
    for file in cpuset.cpus cpuset.mems; do
        cat "/sys/fs/cgroup/cpuset/$file" > "/sys/fs/cgroup/cpuset/$cgroup/$file"
    done
fi
containerd --config "$folder/containerd.toml" > "$folder/containerd.log" 2>&1 &
until ctr --address "$folder/containerd.sock" version > /dev/null 2>&1; do sleep 0.1; done
for image in "$folder"/../images/*.tar; do
    ctr --address "$folder/containerd.sock" --namespace k8s.io images import "$image" >> "$folder/images.log" 2>&1
done
"$programs/kube-proxy" --config "$folder/proxy.yaml" > "$folder/proxy.log" 2>&1 &
"$programs/kubelet" --config "$folder/kubelet.yaml" --kubeconfig "$folder/kubelet.conf" --hostname-override "$name" \
    --node-ip "$(ip -4 -o address show dev eth0 | sed 's/.*inet \([0-9.]*\).*/\1/')" --root-dir /var/lib/kubelet \
    --cert-dir "$folder/kubelet/pki" > "$folder/kubelet.log" 2>&1 &
wait
