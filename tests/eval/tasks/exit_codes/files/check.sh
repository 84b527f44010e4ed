#!/bin/sh
for file in "$@"; do
  grep -q '.\{81\}' "$file" && echo "$file"
done
exit 0
