"""summarize.py DIRECTORY: how many tests ran, which were skipped and why, and which took longest, from what GoogleTest
wrote there as XML and ctest as groups.junit. A skipped test that says nothing would pass for one that passed.
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


def skipped_groups(directory):
    """(name, reason) of what ctest skipped as a whole: a script that exits with 77 and says why."""
    path = pathlib.Path(directory) / "groups.junit"
    for case in xml.parse(path).getroot().iter("testcase") if path.is_file() else ():
        if case.find("skipped") is not None:
            said = (case.findtext("system-out") or "").splitlines()
            reasons = [line.split(":", 1)[1].strip() for line in said if line.lower().startswith("skipped:")]
            yield case.get("name"), reasons[-1] if reasons else "no reason was given"


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
    groups = collections.defaultdict(list)
    for name, why in skipped_groups(directory):
        groups[why].append(name)
    for why, names in groups.items():
        print(f"  skipped as a whole: {', '.join(names)}: {why}")
    times.sort(reverse=True)
    longest = ", ".join(f"{name} {seconds:.1f} s" for seconds, name in times[:N_LONGEST])
    if longest:
        print(f"longest: {longest}")


if __name__ == "__main__":
    main(sys.argv[1])
