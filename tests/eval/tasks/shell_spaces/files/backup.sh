#!/bin/sh
# Copies every file of folder $1 to folder $2.
mkdir -p $2
for file in $(ls $1); do
  cp $1/$file $2/
done
