#!/bin/sh
# Builds and then publishes: release.sh FOLDER
. "$(dirname "$0")/log.sh"
begin "$1"
sh "$(dirname "$0")/build.sh" "$1" > "$1/build.log" 2>&1
status=$?
cat "$1/build.log"
if [ $status -ne 0 ]; then
  fail "the build failed"
fi
cp "$1/result" "$1/published"
finish
