#include "apps/terminal/line_layout.h"

#include "apps/terminal/graphemes.h"

namespace ibid {

LaidOutText lay_out(std::string_view prompt, std::string_view text, size_t cursor, size_t width) {
  LaidOutText out;
  const size_t margin = text_columns(prompt);
  out.rows.emplace_back(prompt);
  size_t column = margin;
  size_t extra = 0;  // columns that a terminal may need beyond those, for emoji that it does not join
  const auto next_row = [&](size_t indent) {
    out.rows.emplace_back(indent, ' ');
    column = indent;
    extra = 0;
  };
  for (size_t i = 0;;) {
    const bool tab = i < text.size() && text[i] == '\t';
    const size_t end = i < text.size() ? grapheme_end(text, i) : i;
    const std::string_view cluster = text.substr(i, end - i);
    size_t columns = tab ? kTabColumns - column % kTabColumns : grapheme_columns(cluster);
    const bool newline = cluster == "\n";
    // A cursor behind a full row stands in the next one, and so does what follows.
    const size_t needed = cluster.empty() ? 1 : tab ? columns : widest_columns(cluster);
    if (column + extra + needed > width && !newline) next_row(0);
    if (i == cursor) {
      if (column + extra >= width) next_row(0);
      out.cursor_row = out.rows.size() - 1;
      out.cursor_column = column;
    }
    if (i >= text.size() || newline) {  // an empty line has nothing in it to be copied
      if (out.rows.size() > 1 && out.rows.back() == std::string(margin, ' ')) out.rows.back().clear();
    }
    if (i >= text.size()) return out;
    if (newline) {
      next_row(margin);
    } else if (tab) {
      columns = kTabColumns - column % kTabColumns;
      if (column + extra + columns > width) columns = width - column - extra;
      out.rows.back().append(columns, ' ');
      column += columns;
    } else {
      out.rows.back() += cluster;
      column += columns;
      extra += needed - columns;
    }
    i = end;
  }
}

}  // namespace ibid
