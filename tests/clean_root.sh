#!/usr/bin/env bash
# Both commands of README.md in a minimal Debian, where nothing is installed yet: as root, and as a user with sudo in a
# folder with blanks and umlauts.
#
#   tests/clean_root.sh [--suite NAME] [--as root|user] [--keep] [-- ARGS]
#
#   --suite NAME   bookworm (the default), trixie: any suite that debootstrap knows
#   --as NAME      the steps of root, or of the user, alone
#   --keep         leaves the last root in build/clean_root, to look at
#   -- ARGS        `./run test ARGS` as root in place of all tests: -- -R '^consumer'
#
# Needs root, debootstrap, 10 GB of disk and an hour on two cores. IBID_CLEAN_ROOT_CCACHE=FOLDER shares the machine's
# ccache, which makes a trial pass short and proves less: the compilers of the system then compile little.
#
# Each root gets the package sources, the resolver, the certificates and the proxies of this machine, and no other
# variable. Mounts are made in a namespace of their own, which ends with its processes. The output of each step is in
# build/clean_root/SUITE-STEP.log.
set -euo pipefail

tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=$tree/build/clean_root
suite=bookworm
steps="root user"
test_arguments=()
keep=false
results=()
n_failed=0
child=  # the running step

fail() {
  echo "clean root: $*" >&2
  exit 1
}

while (($#)); do
  case $1 in
    --suite)
      (($# >= 2)) || fail "--suite needs a name"
      suite=$2
      shift
      ;;
    --as)
      [[ ${2:-} == root || ${2:-} == user ]] || fail "--as needs root or user"
      steps=$2
      shift
      ;;
    --keep) keep=true ;;
    --)
      shift
      test_arguments=("$@")
      break
      ;;
    *) fail "unknown option $1: there are --suite NAME, --as root|user, --keep and -- ARGS" ;;
  esac
  shift
done
((EUID == 0)) || fail "only root can make a root: sudo ./run test --clean-root"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"

pristine=$place/$suite-pristine
root=$place/$suite-root

# Nothing is mounted below it: mounts end with the namespace in which they were made.
remove() {
  ! grep -qF " $1/" /proc/self/mounts || fail "something is mounted below $1; it is left there"
  rm -rf --one-file-system "$1"
}

clean_up() {
  [[ -z $child ]] || kill -KILL -- "-$child" 2>/dev/null || true
  $keep || remove "$root"
  remove "$pristine"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# Debian's own package sources of this machine, as lines for this suite.
package_sources() {
  local codename
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v from="$codename" -v to="$suite" \
      '$4 == "main" && ($3 == from || index($3, from "-") == 1) { sub("^" from, to, $3); print $1, $2, $3, $4 }' | sort -u
}

# A copy of this tree as a clone has it, without what was built.
copy_tree() {
  mkdir -p "$1"
  if git -C "$tree" rev-parse >/dev/null 2>&1; then
    git -C "$tree" -c safe.directory="$tree" ls-files -z --cached --others --exclude-standard |
      tar --create --directory "$tree" --null --files-from - --ignore-failed-read 2>/dev/null
  else
    tar --create --directory "$tree" --exclude ./build .
  fi | tar --extract --directory "$1" --no-same-owner
}

make_pristine() {
  local mirror
  mirror=$(package_sources | awk -v suite="$suite" '$3 == suite { print $2; exit }')
  mkdir -p "$place"
  exec {lock}>"$place/lock"
  flock --nonblock "$lock" || fail "another run uses $place"
  remove "$pristine"
  echo "clean root: making a minimal $suite"
  debootstrap --variant=minbase "$suite" "$pristine" ${mirror:+"$mirror"} >"$place/$suite-debootstrap.log" 2>&1 ||
    fail "debootstrap failed: $place/$suite-debootstrap.log says why"
  rm -rf "$pristine"/var/lib/apt/lists/* "$pristine"/var/cache/apt/archives/*.deb
  echo force-unsafe-io >"$pristine/etc/dpkg/dpkg.cfg.d/clean_root"  # no fsync for a root that is removed
  if [[ -n $mirror ]]; then package_sources >"$pristine/etc/apt/sources.list"; fi
  { grep -lrsi proxy /etc/apt/apt.conf /etc/apt/apt.conf.d || true; } | xargs -r cp -t "$pristine/etc/apt/apt.conf.d"
  cp -L /etc/resolv.conf /etc/hosts "$pristine/etc/"
  mkdir -p "$pristine/usr/local/share/ca-certificates"
  cp -r /usr/local/share/ca-certificates/. "$pristine/usr/local/share/ca-certificates"
  [[ ! -f /etc/pip.conf ]] || cp /etc/pip.conf "$pristine/etc/"
}

# A root in which nothing was installed.
fresh_root() {
  remove "$root"
  cp -a --one-file-system "$pristine" "$root"  # debootstrap may have left /proc mounted
}

# in_root USER COMMAND...: runs it in the root as USER, without a terminal, a locale and standard input but what is given.
in_root() {
  local user=$1 variable variables=()
  shift
  for variable in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [[ -z ${!variable:-} ]] || variables+=("$variable=${!variable}")
  done
  if [[ -d $root/ccache ]]; then
    # ccache keys the locale, so its folder is of use in that of this machine alone.
    variables+=(CCACHE_DIR=/ccache CCACHE_TEMPDIR=/tmp ${IBID_CLEAN_ROOT_CCACHE:+"LANG=${LANG:-C}"})
    [[ $user == root ]] || variables+=(CCACHE_READONLY=true)
  fi
  unshare --mount --pid --ipc --fork --kill-child -- bash -c '
    set -e
    root=$1 user=$2 cache=$3
    shift 3
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for device in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do
      mknod -m 666 "$root/dev/${device% *}" c 1 "${device#* }"
    done
    mknod -m 666 "$root/dev/tty" c 5 0
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    if [[ -d $root/ccache ]]; then mount --bind "$cache" "$root/ccache"; fi
    home=$(awk -F: -v user="$user" "\$1 == user { print \$6 }" "$root/etc/passwd")
    status=0
    chroot --userspec="$user" "$root" /usr/bin/env -i HOME="$home" USER="$user" \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" || status=$?
    ls -A "$root/dev/shm" | sed "s/^/left in \/dev\/shm: /" >&2
    exit "$status"
  ' in_root "$root" "$user" "$shared_ccache" "${variables[@]}" "$@"
}

# step NAME CHECK COMMAND...: runs the command, judges its output with the function CHECK, and notes the verdict.
step() {
  local name=$1 check=$2 out=$place/$suite-$1.out log=$place/$suite-$1.log begin=$SECONDS status=0 verdict
  shift 2
  echo "clean root: $name begins at $(date +%T)"
  set -m  # a process group of its own, which clean_up ends
  "$@" >"$out" 2>"$log" &
  child=$!
  set +m
  wait "$child" || status=$?
  child=
  cat "$out" >>"$log"
  verdict=$("$check" "$status" "$out" "$log" | tr '\n' ' ')
  if [[ -n $verdict ]]; then n_failed=$((n_failed + 1)); fi
  results+=("$(printf '%s %-10s %5d s  %s' "$([[ -n $verdict ]] && echo FAILED || echo passed)" "$name" \
    $((SECONDS - begin)) "$verdict")")
  echo "clean root: ${results[-1]}"
}

# The checks print what is wrong: a step whose check is silent passed.
common_faults() {
  (($1 == 0)) || echo "exit status $1, see $3; "
  ! grep -qE '^E: |Unable to locate|Note, selecting' "$3" || echo "apt-get reports errors; "
  ! grep -q '^left in /dev/shm' "$3" || echo "files are left in /dev/shm; "
  [[ -z $(find "$root/root" "$root/home" -path '*/build/release/*.log' -exec grep -i 'warning: ' {} +) ]] ||
    echo "the build has warnings; "
}

# Two messages, two answers, and nothing else on standard output.
chat_faults() {
  common_faults "$@"
  (($(grep -c . "$2") >= 2)) || echo "standard output has fewer than two lines; "
  ! grep -qE '^(run|ibid):|^\[[0-9]+/|^(Get|Hit|Setting up)' "$2" || echo "standard output has more than answers; "
}

test_faults() {
  common_faults "$@"
  grep -qE '^[1-9][0-9]* tests ran|tests failed out of [1-9]' "$2" || echo "no test ran; "
  grep -q '^100% tests passed' "$2" || echo "tests failed: $(sed -n 's/^.*[0-9] - \(.*\) (\(Failed\|Timeout\|Not Run\).*/\1/p' "$2" | xargs); "
  local left
  left=$(find "$root/tmp" -mindepth 1 -maxdepth 1 ! -name 'ccache*' -printf '%f ')
  [[ -z $left ]] || echo "files are left in /tmp: $left; "
}

as_root() {
  fresh_root
  copy_tree "$root/root/ibid"
  [[ -z $shared_ccache ]] || mkdir -p "$root/ccache"
  step root-chat chat_faults in_root root bash -c \
    'cd ~/ibid && printf "Name three rivers.\nAnd one lake?\n" | ./run chat'
  step root-test test_faults in_root root bash -c 'cd ~/ibid && ./run test "$@" <&-' run "${test_arguments[@]}"
}

# What root's steps compiled is there for the user, whose clone is elsewhere: that the compiler runs was seen before.
as_user() {
  if [[ -z $shared_ccache ]]; then
    shared_ccache=$place/$suite-ccache
    rm -rf "$shared_ccache"
    if [[ -d $root/root/.cache/ccache ]]; then mv "$root/root/.cache/ccache" "$shared_ccache"; else shared_ccache=; fi
  fi
  fresh_root
  [[ -z $shared_ccache ]] || mkdir -p "$root/ccache"
  in_root root bash -c 'apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends sudo &&
    useradd --create-home --shell /bin/bash jo && echo "jo ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/jo &&
    rm -rf /var/lib/apt/lists/*' >"$place/$suite-sudo.log" 2>&1 || fail "sudo cannot be installed: $place/$suite-sudo.log"
  copy_tree "$root/home/jo/Meine Größe (neu)/ibid x"
  chroot "$root" chown -R jo:jo /home/jo
  step user-chat chat_faults in_root jo bash -c \
    'cd ~/"Meine Größe (neu)/ibid x" && printf "Name three rivers.\nAnd one lake?\n" | ./run --yes chat'
  step user-test test_faults in_root jo bash -c 'cd ~/"Meine Größe (neu)/ibid x" && ./run --yes test --fast <&-'
  [[ $shared_ccache != "$place/$suite-ccache" ]] || rm -rf "$shared_ccache"
}

shared_ccache=${IBID_CLEAN_ROOT_CCACHE:-}
[[ -z $shared_ccache || -d $shared_ccache ]] || fail "IBID_CLEAN_ROOT_CCACHE: there is no folder $shared_ccache"
make_pristine
for who in $steps; do "as_$who"; done
printf '%s\n' "clean root: ${suite}${IBID_CLEAN_ROOT_CCACHE:+, with the ccache of this machine}" "${results[@]}"
((n_failed == 0)) || fail "$n_failed of ${#results[@]} steps failed; their output is in $place"
