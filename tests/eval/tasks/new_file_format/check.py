import json

from book import read, write
from merge import merge
from search import find

with open("old.json", "w") as file:
    json.dump([["ann", "12"], ["bob", "34"]], file)
assert read("old.json") == {"ann": ["12"], "bob": ["34"]}
write("new.json", {"ann": ["99", "12"], "cid": ["7"]})
assert json.load(open("new.json")) == {"version": 2, "people": {"ann": ["99", "12"], "cid": ["7"]}}
merge("old.json", "new.json")
assert read("old.json") == {"ann": ["12", "99"], "bob": ["34"], "cid": ["7"]}
assert json.load(open("old.json"))["version"] == 2
assert find("old.json", "9") == ["ann"] and find("old.json", "b") == ["bob"] and find("old.json", "x") == []
with open("next.json", "w") as file:
    json.dump({"version": 3, "people": {}}, file)
try:
    read("next.json")
    raise SystemExit(1)
except ValueError:
    pass
