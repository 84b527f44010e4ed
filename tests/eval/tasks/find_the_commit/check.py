from invoice.lines import total
from invoice.report import report

assert open("CAUSE.txt").read().strip() == "Compute in cents"
for cents in range(1, 2000):
    assert total([("pen", f"{cents // 100}.{cents % 100:02}", 1)]) == cents, cents
assert total([("pen", "0.29", 3), ("ink", "4.35", 2)], 10) == 861
assert report([("pen", "0.29", 3)], "CHF", 50) == "pen: 0.87\ndiscount: 50%\ntotal: 0.43 CHF"
