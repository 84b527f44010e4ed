import inspect, sys, threading
import counter
sys.setswitchinterval(1e-6)
c = counter.Counter()
def work():
    for _ in range(3000):
        c.add()
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert c.value == 12000, c.value
