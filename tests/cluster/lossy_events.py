"""lossy_events.py FROM TO SHARE: forwards KV events from one endpoint of ZeroMQ to another, and loses a share of them."""
import random
import sys

import zmq


def main():
    source, target, share = sys.argv[1], sys.argv[2], float(sys.argv[3])
    context = zmq.Context()
    incoming, outgoing = context.socket(zmq.SUB), context.socket(zmq.PUB)
    incoming.setsockopt(zmq.SUBSCRIBE, b"")
    incoming.connect(source)
    outgoing.bind(target)
    rnd = random.Random(1)
    n = n_lost = 0
    while True:
        parts = incoming.recv_multipart()
        n += 1
        if rnd.random() < share:
            n_lost += 1
        else:
            outgoing.send_multipart(parts)
        print(f"{n_lost} of {n} batches lost", flush=True)


if __name__ == "__main__":
    main()
