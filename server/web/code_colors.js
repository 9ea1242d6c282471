// Splits source code into comments, strings, numbers, keywords and the rest. One scanner for all languages, right for
// most code in most languages, and linear in the text. A mistake only gives a wrong colour.

const MAX_LENGTH = 50000;  // longer texts are not coloured

const WORDS = new Set((
  "abstract and as assert async await auto bool break case catch char class const constexpr continue def default del " +
  "delete do done double elif else enum esac except export extends extern false False fi final finally float fn for " +
  "from func function global goto if impl implements import in include inline int interface is lambda let long loop " +
  "match mod mut namespace new nil None not null nullptr operator or package pass private protected pub public raise " +
  "ref return self short signed sizeof static string struct super switch template then this throw trait true True " +
  "try type typedef typename union unsigned use using var virtual void volatile where while with yield").split(" "));
const SQL = new Set((
  "select from where and or not insert into values update set delete create table index join left right inner outer " +
  "on group by order limit having distinct as null primary key references union all drop alter").split(" "));

const HASH_COMMENTS = new Set(
  "python py sh bash shell zsh ruby rb yaml yml toml make makefile cmake r perl ini conf".split(" "));
const DASH_COMMENTS = new Set(["sql", "lua", "haskell", "hs"]);
const PLAIN = new Set(["", "text", "txt", "plain", "plaintext", "markdown", "md", "output", "console", "html", "xml"]);

function scannerFor(language) {
  const comment = HASH_COMMENTS.has(language) ? "#[^\\n]*" : DASH_COMMENTS.has(language) ? "--[^\\n]*"
    : "//[^\\n]*|/\\*(?:[^*]|\\*(?!/))*(?:\\*/|$)";
  return new RegExp(
    `(?<comment>${comment})|(?<string>"(?:[^"\\\\\\n]|\\\\.)*"?|'(?:[^'\\\\\\n]|\\\\.)*'?|\`(?:[^\`\\\\]|\\\\.)*\`?)` +
    "|(?<word>[A-Za-z_$][\\w$]*)|(?<number>\\d[\\w.]*)", "g");
}

// Returns a list of parts, {kind: "" | "comment" | "string" | "number" | "word", text}. Their texts together are
// `text`.
export function colorCode(text, language) {
  const name = language.toLowerCase();
  if (PLAIN.has(name) || text.length > MAX_LENGTH) return [{kind: "", text}];
  const isWord = (word) => (name === "sql" ? SQL.has(word.toLowerCase()) : WORDS.has(word));
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(scannerFor(name))) {
    const {comment, string, word} = found.groups;
    const kind = comment !== undefined ? "comment" : string !== undefined ? "string"
      : word === undefined ? "number" : isWord(word) ? "word" : "";
    if (kind === "") continue;
    if (found.index > end) parts.push({kind: "", text: text.slice(end, found.index)});
    parts.push({kind, text: found[0]});
    end = found.index + found[0].length;
  }
  if (end < text.length) parts.push({kind: "", text: text.slice(end)});
  return parts;
}
