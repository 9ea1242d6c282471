"""summarize.py DIRECTORY: how many tests ran, which were skipped and why, and which took longest, from what GoogleTest
wrote there as XML. A skipped test that says nothing would pass for one that passed.
"""
import collections
import pathlib
import sys
import xml.etree.ElementTree as xml

N_LONGEST = 5


def cases(directory):
    for path in sorted(pathlib.Path(directory).glob("*.xml")):
        for case in xml.parse(path).getroot().iter("testcase"):
            yield case


def reason(case):
    """The last line of what GTEST_SKIP() was given; the first one is the place in the source."""
    skipped = case.find("skipped")
    if skipped is None:
        return None
    message = skipped.get("message", "") or (skipped.text or "")
    lines = [line for line in message.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason was given"


def main(directory):
    n_run, skipped, times = 0, collections.Counter(), []
    for case in cases(directory):
        why = reason(case)
        if why is not None:
            skipped[why] += 1
        elif case.get("result") == "completed":
            n_run += 1
            times.append((float(case.get("time", 0)), f"{case.get('classname')}.{case.get('name')}"))
    print(f"{n_run} tests ran, {sum(skipped.values())} were skipped")
    for why, n in skipped.most_common():
        print(f"  {n} skipped: {why}")
    times.sort(reverse=True)
    longest = ", ".join(f"{name} {seconds:.1f} s" for seconds, name in times[:N_LONGEST])
    if longest:
        print(f"longest: {longest}")


if __name__ == "__main__":
    main(sys.argv[1])
