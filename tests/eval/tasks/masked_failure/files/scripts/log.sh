# Messages of the scripts.
begin() { echo "release of $1"; }
finish() { echo "done"; }
fail() {
  echo "error: $1" >&2
  exit 1
}
