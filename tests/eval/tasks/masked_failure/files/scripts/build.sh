#!/bin/sh
# Builds: build.sh FOLDER
echo "building"
if ! cat "$1"/source > "$1/result"; then
  echo "no source"
  exit 3
fi
echo "built"
