"""validate_answers.py CASES: validates answers against their schemas with python-jsonschema.

CASES has a line for each schema, ["schema", SCHEMA], followed by a line for each answer to it, ["answer", TEXT]. Prints
invalid answers. Exit code: 0; 1 if an answer is invalid; 77 if jsonschema is not installed. Numbers are decimals:
0.07 is a multiple of 0.01.

jsonschema checks some formats only if further packages are installed, and some as in draft 3. These formats are checked
here, with Python's own parsers.
"""
import datetime
import decimal
import json
import sys
import urllib.parse
import uuid
from decimal import Decimal

try:
    from jsonschema import Draft202012Validator, FormatChecker
except ImportError:
    print("python3 has no jsonschema")
    sys.exit(77)


FORMATS = FormatChecker()


@FORMATS.checks("time", raises=ValueError)
def is_time(text):
    return datetime.time.fromisoformat(text.upper()).tzinfo is not None


@FORMATS.checks("date-time", raises=ValueError)
def is_date_time(text):
    return text[10] in "Tt" and datetime.datetime.fromisoformat(text.upper()).tzinfo is not None


@FORMATS.checks("uuid", raises=ValueError)
def is_uuid(text):
    return str(uuid.UUID(text)) == text.lower()


@FORMATS.checks("hostname")
def is_host_name(text):
    labels = text.split(".")
    return len(text) <= 253 and all(0 < len(label) <= 63 and label[0] != "-" and label[-1] != "-" and
                                    label.replace("-", "").isalnum() and label.isascii() for label in labels)


@FORMATS.checks("uri", raises=ValueError)
def is_uri(text):
    parts = urllib.parse.urlsplit(text)
    return parts.scheme != "" and not any(c in text for c in ' "<>\\^`{|}')


def main(path):
    decimal.getcontext().prec = 2000  # digits
    n_answers, wrong, validator = 0, [], None
    with open(path, encoding="utf-8") as cases:
        for line in cases:
            kind, value = json.loads(line, parse_float=Decimal)
            if kind == "schema":
                Draft202012Validator.check_schema(json.loads(line)[1])
                validator = Draft202012Validator(value, format_checker=FORMATS)
                continue
            n_answers += 1
            try:
                answer = json.loads(value, parse_float=Decimal)
            except ValueError as error:
                wrong.append(f"{value!r}: {error}")
                continue
            wrong += [f"{value!r}: {error.message[:300]}" for error in validator.iter_errors(answer)][:1]
    print(f"{n_answers} answers, {len(wrong)} of them not valid")
    print("\n".join(wrong[:20]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
