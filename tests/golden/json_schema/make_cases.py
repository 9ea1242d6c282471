"""make_cases.py SUITE > suite_cases.json: the cases of JSON-Schema-Test-Suite for the tests of grammars.

SUITE is a checkout of json-schema-org/JSON-Schema-Test-Suite (MIT licence). Uses the files of draft2020-12 for the
keywords that docs/structured_output.md lists, and those of the regular formats. Keeps groups whose schema has an
unsupported keyword: the test expects an error. Leaves out groups that need a second document.
"""
import json
import pathlib
import sys

FILES = """additionalProperties allOf anchor anyOf boolean_schema const contains default defs dependentRequired
dependentSchemas enum exclusiveMaximum exclusiveMinimum if-then-else infinite-loop-detection items maximum
maxItems maxLength maxProperties minimum minItems minLength minProperties multipleOf not oneOf pattern
patternProperties prefixItems properties propertyNames ref required type unevaluatedItems unevaluatedProperties
uniqueItems""".split()
FORMATS = """date date-time duration email hostname ipv4 ipv6 json-pointer relative-json-pointer time uri uri-reference
uuid""".split()


def main(suite):
    folder = pathlib.Path(suite) / "tests" / "draft2020-12"
    groups = []
    for name, path in [(f, folder / f"{f}.json") for f in FILES] + \
                      [(f"format/{f}", folder / "optional" / "format" / f"{f}.json") for f in FORMATS]:
        for group in json.loads(path.read_text(encoding="utf-8")):
            schema = group["schema"]
            text = json.dumps(schema)
            if "http://localhost" in text or "json-schema.org/draft/2020-12/schema#" in text:
                continue
            if isinstance(schema, dict):
                schema = {key: value for key, value in schema.items() if key != "$schema"}
                if "json-schema.org" in json.dumps(schema):
                    continue
            groups.append({"file": name, "group": group["description"], "schema": schema,
                           "tests": [[t["description"], t["data"], t["valid"]] for t in group["tests"]]})
    lines = ",\n".join(json.dumps(group, ensure_ascii=False, separators=(",", ":")) for group in groups)
    print(f"[\n{lines}\n]")


if __name__ == "__main__":
    main(sys.argv[1])
