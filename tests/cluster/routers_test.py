"""Two `ibid serve` behind a router of others: conversations stay where they are cached, a killed node costs only the
streams that it served, and users share nothing.

    IBID_PROGRAM=build/release/apps/ibid IBID_WRITE_TALKING_MODEL=build/release/tests/server/write_talking_model \\
      python3 tests/cluster/routers_test.py ROUTER [--sample] [--model PATH]

ROUTER: haproxy, nginx, smg, vllm_router or sglang_router, with the configurations of deploy/. --sample: a part of the
work, for CI. The figures are printed. Exit status 77: skipped, with the reason.
"""
import argparse
import contextlib
import pathlib
import sys
import tempfile
import time

from nodes import (Conversations, DEPLOY, chat, expect, free_port, get, nodes, process, program_with, python_with,
                   talking_model, wait_for)

MIN_SHARE = 0.99      # of known tokens that come from the cache
MAX_USED_AGAIN_S = 5  # after /ready of a restarted node


class Router:
    """A router with its configuration of deploy/. lost: the share of KV events that do not reach it."""

    def __init__(self, name, directory, lost=0.0):
        self.name, self.directory, self.port, self.lost = name, pathlib.Path(directory), free_port(), lost
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = self.directory / f"{name}.log"

    def command(self, all_nodes):
        urls = [node.url for node in all_nodes]
        port = {"PORT": str(self.port), "METRICS_PORT": str(free_port())}
        if self.name == "haproxy":
            config = self.directory / "haproxy.cfg"
            text = (DEPLOY / "haproxy.cfg").read_text()
            # The log of each request, with its id, on standard output.
            log = "defaults\n  log stdout format raw local0\n  log-format \"%[var(txn.id)] %s %ST\"\n"
            config.write_text(text.replace("defaults\n", log, 1).replace(
                "  http-request wait-for-body", "  http-request set-var(txn.id) req.hdr(X-Request-Id)\n  http-request wait-for-body", 1))
            hosts = {f"IBID_{i + 1}": url.removeprefix("http://") for i, url in enumerate(urls)}
            return [program_with("haproxy"), "-f", str(config)], {"IBID_LISTEN": f"127.0.0.1:{self.port}", **hosts}
        if self.name == "nginx":
            text = (DEPLOY / "nginx.conf").read_text().replace("/tmp/ibid_nginx", str(self.directory / "nginx"))
            text = text.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}").replace(
                "access_log off;", "log_format ids '$id'; access_log /dev/stdout ids;")
            for place, url in zip(("127.0.0.1:8081", "127.0.0.1:8082"), urls):
                text = text.replace(place, url.removeprefix("http://"))
            (self.directory / "nginx.conf").write_text(text)
            return [program_with("nginx"), "-c", str(self.directory / "nginx.conf"), "-g", "daemon off;"], {}
        module = {"smg": "smg", "vllm_router": "vllm_router", "sglang_router": "sglang_router"}[self.name]
        port["PYTHON"] = python_with(module)
        backends = urls
        if self.name == "vllm_router":
            backends = [f"{node.url}={events}={node.replay}" for node, events in zip(all_nodes, self.events)]
        return ["bash", str(DEPLOY / f"{self.name}.sh"), *backends, "--", "--log-level", "info"], port

    @contextlib.contextmanager
    def running(self, all_nodes):
        self.events = [node.events for node in all_nodes]
        with contextlib.ExitStack() as stack:
            if self.lost > 0:
                python, script = python_with("zmq"), pathlib.Path(__file__).with_name("lossy_events.py")
                for i, node in enumerate(all_nodes):
                    self.events[i] = f"tcp://127.0.0.1:{free_port()}"
                    stack.enter_context(process([python, str(script), node.events, self.events[i], str(self.lost)], {},
                                                self.directory / f"lossy{i}.log"))
            command, environment = self.command(all_nodes)
            one = stack.enter_context(process(command, environment, self.log_path))

            def answers():
                expect(one.poll() is None, "the router ended:", self.log_path.read_text()[-2000:])
                return get(self.url + "/v1/models")[0] == 200
            wait_for(self.name, answers)
            time.sleep(2)  # until it has asked all nodes whether they are well
            yield


def wait_for_logs(what, ids, log):
    """A line of a log may be written after the answer has arrived."""
    end = time.monotonic() + 5
    while True:
        known = log()
        missing = [one for one in ids if one not in known]
        if not missing:
            return
        expect(time.monotonic() < end, "ids that", what, "does not have:", missing[:3])
        time.sleep(0.05)


def test_affinity(router, all_nodes, n, n_turns):
    before = [len(node.answers()) for node in all_nodes]
    done = Conversations(router.url, n, n_turns, names_sessions=router.name in ("nginx", "vllm_router"))
    expect(not done.errors, "failed turns:", done.errors[:3])
    wait_for_logs("the log of any node", done.ids,
                  lambda: {line.get("request_id") for node in all_nodes for line in node.lines()})
    if router.name != "vllm_router":  # its log has no ids of requests
        wait_for_logs("the log of the router", done.ids, lambda: router.log_path.read_text(errors="replace"))
    per_node = [len(node.answers()) - old for node, old in zip(all_nodes, before)]
    print(f"{router.name}: {done.n_answers} answers, {per_node} by node, {done.cached} of {done.known} known tokens cached "
          f"({done.share():.4f}), {done.n_whole} whole turns of {n * (n_turns - 1)}")
    expect(all(per_node), "a node was not used:", per_node)
    expect(done.share() >= MIN_SHARE, "share of known tokens that were cached:", done.share())


def test_kill(router, all_nodes):
    """kill -9 in the middle of a stream."""
    messages = [{"role": "system", "content": "You tell long stories."}, {"role": "user", "content": f"a lamp {time.time()}"}]
    killed = []

    def kill_after(answer):
        if answer.n_chunks < 12 or killed:
            return
        for node in all_nodes:
            if node.running() > 0:
                node.kill()
                killed.append(time.monotonic())
                killed.append(node)
                return

    # Eight long answers, because a tiny model needs little time for one.
    answer = chat(router.url, messages, on_chunk=kill_after, n=8, logit_bias={"257": -100}, max_tokens=1800)
    expect(killed, "no node was killed; the answer had", answer.n_chunks, "chunks,", answer.error)
    seen_s = time.monotonic() - killed[0]
    expect(answer.finish is None, "the cut stream has a finish_reason")
    expect(answer.error, "the cut stream ended without an error")
    later = chat(router.url, messages + [{"role": "assistant", "content": answer.text}, {"role": "user", "content": "And?"}],
                 max_tokens=4)
    for _ in range(3):  # a router may need a failed request to see that a node is gone
        if later.finish is None:
            later = chat(router.url, messages, max_tokens=4)
    expect(later.finish is not None, "the next turn is not answered:", later.error)
    node = killed[1]
    node.start()
    ready = time.monotonic()
    n = len(node.answers())
    i = 0
    while len(node.answers()) == n:
        i += 1
        chat(router.url, [{"role": "user", "content": f"{time.time()} {i} another text"}], max_tokens=2)
        expect(time.monotonic() - ready < 90, "the restarted node is not used within 90 s")
        time.sleep(0.1)
    used_s = time.monotonic() - ready
    print(f"{router.name}: error {seen_s:.2f} s after kill -9, next turn answered, node used again {used_s:.1f} s after /ready")
    if router.name in ("haproxy", "smg"):
        expect(used_s <= MAX_USED_AGAIN_S, "the restarted node is used after", used_s, "s")


def test_isolation(router, all_nodes):
    """Two users with the same text; the nodes run with --namespace-by-user."""
    text = "A private text of some length, which nobody else may find in the cache. " * 3
    messages = [{"role": "system", "content": text}, {"role": "user", "content": "What did I say?"}]
    for _ in range(2 * len(all_nodes)):  # so that each node has the text of the first user
        first = chat(router.url, messages, {"X-Session-Id": str(time.time())}, max_tokens=2, user="alice")
    outcomes = []
    for i in range(2 * len(all_nodes)):
        second = chat(router.url, messages, {"X-Session-Id": str(time.time())}, max_tokens=2, user=f"bob{i}")
        outcomes.append("refused" if second.error else second.cached())
    print(f"{router.name}: alice again {first.error or first.cached()} cached, other users {outcomes}")
    expect(all(one in ("refused", 0) for one in outcomes), "a user got another's cached tokens:", outcomes)


def test_restarted_node(router, all_nodes):
    """Blocks of a process that was killed attract no requests to the next one."""
    texts = [[{"role": "system", "content": f"Text {i} {time.time()} " + "of some length " * 12},
              {"role": "user", "content": "What is it about?"}] for i in range(12)]
    last = all_nodes[-1]  # without blocks, the router takes the first node
    for messages in texts:
        expect(chat(last.url, messages, max_tokens=2).finish, "no answer of the node")
    time.sleep(1)
    n = len(last.answers())
    for messages in texts[:3]:
        chat(router.url, messages, max_tokens=2)
    time.sleep(0.5)  # until the lines are in the log
    expect(len(last.answers()) == n + 3, "the router does not use the blocks of a node that it did not fill itself")
    last.kill()
    last.start()
    time.sleep(4)
    n = [len(node.answers()) for node in all_nodes]
    for messages in texts[3:]:
        chat(router.url, messages, max_tokens=2)
    time.sleep(0.5)
    routed = [len(node.answers()) - old for node, old in zip(all_nodes, n)]
    print(f"{router.name}: 3 of 3 requests went to the node with their blocks; after its restart {routed[-1]} of 9")
    expect(routed[-1] < 9, "all requests went to the restarted node")


def test_lost_events(router, all_nodes):
    """Without a tenth of the events, hits become fewer and answers stay the same."""
    done = Conversations(router.url, 6, 4, seed=77)
    expect(not done.errors, "failed turns:", done.errors[:3])
    messages = [{"role": "system", "content": "A text of some length " * 8}, {"role": "user", "content": "What is it about?"}]
    answers = {chat(url, messages, max_tokens=24).text for url in [router.url, *(node.url for node in all_nodes)] * 2}
    print(f"{router.name}: with 10 % of events lost {done.share():.4f} of known tokens cached, {len(answers)} different answers")
    expect(len(answers) == 1, "the answer depends on the cache:", answers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("router", choices=["haproxy", "nginx", "smg", "vllm_router", "sglang_router"])
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--model")
    arguments = parser.parse_args()
    n, n_turns = (4, 3) if arguments.sample else (8, 5)
    if arguments.router == "nginx":
        n = 12  # its hashes are those of the addresses, so the shares of the nodes differ between runs
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        model = arguments.model or stack.enter_context(talking_model())
        events = arguments.router == "vllm_router"
        router = Router(arguments.router, directory)
        with nodes(directory, model, events=events) as all_nodes, router.running(all_nodes):
            test_affinity(router, all_nodes, n, n_turns)
            test_kill(router, all_nodes)
            if events:
                test_restarted_node(router, all_nodes)
        if events:
            with nodes(directory, model, events=True) as all_nodes:
                router = Router(arguments.router, directory, lost=0.1)
                with router.running(all_nodes):
                    test_lost_events(router, all_nodes)
        with tempfile.TemporaryDirectory() as other, nodes(other, model, options=["--namespace-by-user"],
                                                           events=events) as all_nodes:
            router = Router(arguments.router, other)
            with router.running(all_nodes):
                test_isolation(router, all_nodes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
