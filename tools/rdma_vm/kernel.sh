# shellcheck shell=bash disable=SC2154
# Sourced by rdma-vm: what the guest boots. Fills the cache with the kernel of a
# Debian package and packs the initramfs.
# Needs: die, CACHE, KERNEL_DIR, KERNEL, REFRESH, MAY_APT, parts (this folder).

# Modules of the guest, in this order, with what they depend on. Those marked "?"
# may be missing from a kernel, or be built in.
MODULES='?virtio_pci ?virtio_console ?virtio_rng 9pnet_virtio 9p ?crc32_generic ib_uverbs rdma_rxe rdma_ucm
    ?ib_umad veth bridge macvlan ?dummy ?8021q ?tun ?sch_netem ?sch_tbf ?sch_htb ?sch_fq ?overlay'

apt_get() {
    LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 \
        -o APT::Sandbox::User=root "$@" >"$CACHE/apt.log" 2>&1
}

# The package to boot: the one asked for, else the newest 6.12 that Debian 12 has
# (its rxe is the one our findings are about), else Debian's default.
find_kernel_package() {
    local package=$KERNEL
    if [ -z "$package" ]; then
        package=$(LC_ALL=C apt-cache search --names-only '^linux-image-6\.12\.[0-9]+\+deb12-amd64$' |
            awk '{ print $1 }' | sort -V | tail -1)
    fi
    if [ -z "$package" ]; then
        package=$(LC_ALL=C apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-/ { print $2; exit }')
    fi
    printf '%s' "$package"
}

# download_kernel FOLDER: the .deb, in FOLDER. Old package lists get one refresh.
download_kernel() {
    local package
    package=$(find_kernel_package)
    if [ -n "$package" ] && [ "$REFRESH" = 0 ]; then
        printf 'rdma-vm: fetching %s (once; kept in %s)\n' "$package" "$CACHE" >&2
        if (cd "$1" && apt_get download "$package"); then return 0; fi
    fi
    if [ "$MAY_APT" = 1 ]; then
        apt_get update || true
        package=$(find_kernel_package)
    fi
    if [ -z "$package" ]; then die "apt knows no kernel package to boot"; fi
    (cd "$1" && apt_get download "$package") || die "cannot download $package (see $CACHE/apt.log)"
}

# unpack_module FILE TO: uncompressed, and without its signature, which takes the
# emulated CPU 0.1 s to check.
unpack_module() {
    case $1 in
        *.xz) xz -dc "$1" ;;
        *.zst) zstd -qdc "$1" ;;
        *.gz) gzip -dc "$1" ;;
        *) cat "$1" ;;
    esac >"$2"
    python3 - "$2" <<'EOF'
import struct, sys
MARK = b"~Module signature appended~\n"
data = open(sys.argv[1], "rb").read()
if data.endswith(MARK):
    # Before the mark: 12 bytes, the last 4 of which are the signature's length.
    (length,) = struct.unpack(">I", data[-len(MARK) - 4:-len(MARK)])
    open(sys.argv[1], "wb").write(data[:-len(MARK) - 12 - length])
EOF
}

# unpack_modules ROOT TO: MODULES and their dependencies from a package's tree,
# and their names in loading order in TO/order.
unpack_modules() {
    local root=$1 to=$2 file name
    local -A files=() seen=()
    while read -r file; do
        name=${file##*/}
        name=${name%%.ko*}
        files[${name//-/_}]=$file
    done < <(find "$root" -path '*/lib/modules/*' -name '*.ko*')

    add_module() {
        local name=${1//-/_} dependency dependencies
        if [ -n "${seen[$name]:-}" ] || [ -z "${files[$name]:-}" ]; then return 0; fi
        seen[$name]=1
        dependencies=$(PATH=$PATH:/usr/sbin:/sbin modinfo -F depends "${files[$name]}")
        for dependency in ${dependencies//,/ }; do add_module "$dependency"; done
        unpack_module "${files[$name]}" "$to/$name.ko"
        echo "$name" >>"$to/order"
    }
    for name in $MODULES; do
        if [ "${name#\?}" = "$name" ] && [ -z "${files[$name]:-}" ] && ! is_built_in "$root" "$name"; then
            die "the kernel package has no module $name"
        fi
        add_module "${name#\?}"
    done
}

is_built_in() { find "$1" -name modules.builtin -exec cat {} + | grep "/$2\.ko" >/dev/null; }

# unpack_kernel VMLINUZ RELEASE TO: the uncompressed kernel, started by PVH,
# spares the guest the unpacking. Not all can be: then TO is not made.
unpack_kernel() {
    local sectors offset length
    # The boot protocol: setup_sects at 497, payload_offset and _length at 584.
    sectors=$(od -An -tu1 -j 497 -N 1 "$1" | tr -d ' ')
    if [ "$sectors" = 0 ]; then sectors=4; fi
    offset=$(od -An -tu4 -j 584 -N 4 "$1" | tr -d ' ')
    length=$(od -An -tu4 -j 588 -N 4 "$1" | tr -d ' ')
    tail -c +$(((sectors + 1) * 512 + offset + 1)) "$1" | head -c "$length" >"$3.payload" || true
    case $(od -An -tx1 -N 4 "$3.payload" | tr -d ' ') in
        28b52ffd) zstd -qdc <"$3.payload" ;;
        fd377a58) xz -dc --single-stream <"$3.payload" ;;
        1f8b*) gzip -dc <"$3.payload" ;;
    esac >"$3.raw" 2>/dev/null || true    # They complain of the bytes that follow.
    if [ "$(od -An -tx1 -N 4 "$3.raw" | tr -d ' ')" = 7f454c46 ] && LC_ALL=C grep -a "Linux version $2" "$3.raw" >/dev/null; then
        mv "$3.raw" "$3"
    fi
    rm -f "$3.payload" "$3.raw"
}

# build_kernel: KERNEL_DIR/{release,vmlinuz,vmlinux,mods/*.ko,mods/order}.
build_kernel() {
    local work vmlinuz release
    work=$(mktemp -d "$CACHE/build.XXXXXX")
    download_kernel "$work"
    mkdir "$work/tree" "$work/new" "$work/new/mods"
    dpkg-deb --fsys-tarfile "$work"/*.deb |
        tar -x -C "$work/tree" --wildcards --no-anchored 'boot/vmlinuz-*' 'lib/modules/*'
    vmlinuz=$(echo "$work"/tree/boot/vmlinuz-*)
    release=${vmlinuz##*/vmlinuz-}
    unpack_modules "$work/tree/" "$work/new/mods"
    unpack_kernel "$vmlinuz" "$release" "$work/new/vmlinux"
    cp "$vmlinuz" "$work/new/vmlinuz"
    echo "$release" >"$work/new/release"
    rm -rf "$KERNEL_DIR.old"
    if [ -e "$KERNEL_DIR" ]; then mv "$KERNEL_DIR" "$KERNEL_DIR.old"; fi
    mv "$work/new" "$KERNEL_DIR"
    rm -rf "$KERNEL_DIR.old" "$work"
}

# The initramfs is named after what is in it, so a change here makes a new one.
initrd_path() {
    local digest
    digest=$({ cat "$parts/guest-init" "$parts/guest-main" "$KERNEL_DIR/release" "$KERNEL_DIR/mods/order"; cksum /bin/busybox; } |
        sha256sum | cut -c1-16)
    echo "$CACHE/initrd-$digest.cpio"
}

# build_initrd TO
build_initrd() {
    local work applet
    work=$(mktemp -d "$CACHE/build.XXXXXX")
    mkdir "$work/root" "$work/root/bin" "$work/root/dev" "$work/root/proc" "$work/root/sys" "$work/root/host"
    cp -a "$KERNEL_DIR/mods" "$work/root/mods"
    cp -L /bin/busybox "$work/root/bin/busybox"
    for applet in $(/bin/busybox --list); do
        if [ "$applet" != busybox ]; then ln -s busybox "$work/root/bin/$applet"; fi
    done
    install -m 755 "$parts/guest-init" "$work/root/init"
    install -m 644 "$parts/guest-main" "$work/root/guest-main"
    (cd "$work/root" && find . | cpio -o -H newc --quiet -R 0:0) >"$work/cpio"
    mv "$work/cpio" "$1"
    rm -rf "$work"
}

# fill_cache: kernel and initramfs are there, whoever else asks at the same time.
# Sets INITRD.
fill_cache() {
    local lock
    if [ "$REFRESH" = 0 ] && [ -s "$KERNEL_DIR/release" ]; then
        INITRD=$(initrd_path)
        if [ -s "$INITRD" ]; then return 0; fi
    fi
    exec {lock}>"$CACHE/lock"
    flock "$lock"
    rm -rf "$CACHE"/build.*
    if [ "$REFRESH" = 1 ] || [ ! -s "$KERNEL_DIR/release" ]; then build_kernel; fi
    INITRD=$(initrd_path)
    find "$CACHE" -maxdepth 1 -name 'initrd-*' -mtime +30 -delete
    if [ ! -s "$INITRD" ]; then build_initrd "$INITRD"; fi
    exec {lock}>&-
}
