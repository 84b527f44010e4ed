#!/bin/sh
# Builds and then publishes: release.sh FOLDER
. "$(dirname "$0")/log.sh"
begin "$1"
"$(dirname "$0")/build.sh" "$1" 2>&1 | tee "$1/build.log"
if [ $? -ne 0 ]; then
  fail "the build failed"
fi
cp "$1/result" "$1/published"
finish
