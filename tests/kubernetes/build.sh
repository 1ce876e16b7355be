#!/bin/sh
# Builds a Kubernetes cluster's programs from Go modules into the folder $1: one with etcd, the control plane, the nodes'
# programs and kubectl (about nine CPU minutes the first time, 140 MB), CoreDNS (two), and the pause program. What is
# there is not built again, until its sources change. Go fetches a newer toolchain where go.mod asks for one.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
export CGO_ENABLED=0

build() { # NAME FOLDER PACKAGE FLAGS: into $out/NAME
    sources=$(cat "$2/go.mod" "$2/go.sum" "$2/$3"/*.go | cksum)
    [ "$(cat "$out/$1.sources" 2>/dev/null)" = "$sources" ] && return
    echo "== builds $1"
    (cd "$2" && go build -p 2 -buildvcs=false -trimpath -ldflags "-s -w $4" -o "$out/$1" "./$3")
    echo "$sources" > "$out/$1.sources"
}

version=$(sed -n 's/^\tk8s.io\/kubernetes //p' cluster/go.mod)
package=k8s.io/component-base/version
build kube cluster . "-X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=34 \
    -X $package.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion=$version"
for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
    ln -sf kube "$out/$name"
done
build coredns dns . ""
build pause cluster pause ""
# The Gateway API's definitions, which the API server has none of.
module=$(cd dns && go mod download -json sigs.k8s.io/gateway-api@v1.6.3 | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
mkdir -p "$out/gateway-api"
cp "$module"/config/crd/standard/*.yaml "$out/gateway-api/"
chmod u+w "$out/gateway-api"/*
