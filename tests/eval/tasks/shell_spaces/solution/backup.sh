#!/bin/sh
# Copies every file of folder $1 to folder $2.
mkdir -p "$2"
for file in "$1"/*; do
  cp "$file" "$2"/
done
