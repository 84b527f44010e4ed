#!/bin/sh
status=0
for file in "$@"; do
  if grep -q '.\{81\}' "$file"; then
    echo "$file"
    status=1
  fi
done
exit $status
