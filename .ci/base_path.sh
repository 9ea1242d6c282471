#!/usr/bin/env bash
# base_path.sh FOLDER PACKAGE...: fills FOLDER with links to the programs of Debian's base system and of these packages
# with all that they depend on. A fresh system has these programs after `./run packages --install`, and no others.
set -euo pipefail
folder=$1
shift
rm -rf "$folder"
mkdir -p "$folder"

# The base system: what every Debian has, and apt. Recommended packages are left out, as ./run does.
mapfile -t base < <(dpkg-query -W -f='${db:Status-Status} ${Essential} ${Priority} ${Package}\n' |
  awk '$1 == "installed" && ($2 == "yes" || $3 == "required") { print $4 }')
mapfile -t needed < <(apt-cache depends --installed --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
  --no-replaces --no-enhances "${base[@]}" apt "$@" | sed -n 's/^\([a-z0-9][^ ]*\)$/\1/p' | sort -u)
mapfile -t packages < <(dpkg-query -W -f='${db:Status-Status} ${binary:Package}\n' "${needed[@]}" 2>/dev/null |
  sed -n 's/^installed //p')

link() {
  [[ -e $folder/${1##*/} ]] || ln -s "${2:-$1}" "$folder/${1##*/}"
}

while IFS= read -r path; do
  if [[ -x $path && ! -d $path ]]; then link "$path"; fi
done < <(dpkg-query -L "${packages[@]}" | grep -E '^(/usr)?/s?bin/[^/]+$')

# Names that update-alternatives makes (c++, awk): the choice of a system with these packages alone.
while read -r name _; do
  [[ ! -e $folder/$name ]] || continue
  while IFS= read -r choice; do
    if [[ -e $folder/${choice##*/} ]]; then
      link "$name" "$folder/${choice##*/}"
      break
    fi
  done < <(update-alternatives --list "$name" 2>/dev/null)
done < <(update-alternatives --get-selections)
