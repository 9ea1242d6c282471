// The page of a TurnCurve (apps/bench/turn_curve_report.h).
#include <cstdio>

#include "apps/bench/line_chart.h"
#include "apps/bench/turn_curve_report.h"

namespace ibid {

namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1d1d1f; --soft: #63636b; --rule: #dcdce2; --paper: #ffffff;
  --s0: #0b62c4; --s1: #b94a00; --s2: #00755e; --s3: #7a3fa0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececf1; --soft: #a8a8b3; --rule: #3a3a42; --paper: #17171a;
    --s0: #6db1ff; --s1: #ff9d57; --s2: #4fd0b0; --s3: #cf9df0; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0.2rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 0.3rem; }
svg { width: 100%; height: auto; } svg text { font-size: 13px; fill: var(--ink); } svg .axis { fill: var(--soft); }
.grid { stroke: var(--rule); stroke-width: 1; } .line { fill: none; stroke-width: 2; }
.s0 { stroke: var(--s0); fill: var(--s0); } .s1 { stroke: var(--s1); fill: var(--s1); }
.s2 { stroke: var(--s2); fill: var(--s2); } .s3 { stroke: var(--s3); fill: var(--s3); }
svg g text { stroke: none; } svg .line { fill: none; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 0.25rem 0.7rem; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; } caption { text-align: left; color: var(--soft); padding-bottom: 0.4rem; }
dt { color: var(--soft); } dd { margin: 0 0 0.5rem 0; overflow-wrap: anywhere; }
.verdict { font-weight: 600; }
)";

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string cell(const std::string& text) { return "<td>" + html_escaped(text) + "</td>"; }

std::string spread_cell(const Spread& spread) {
  std::string text = number(spread.median, "%.2f");
  if (spread.q1 != spread.q3) text += " (" + number(spread.q1, "%.2f") + " to " + number(spread.q3, "%.2f") + ")";
  return cell(text);
}

ChartSeries series_of(const char* name, std::span<const TurnCurvePoint> points, Spread TurnCurvePoint::*which) {
  ChartSeries series{name, {}};
  for (const TurnCurvePoint& p : points) series.points.emplace_back(static_cast<double>(p.history), (p.*which).median);
  return series;
}

std::string verdict_of(std::span<const TurnCurvePoint> points) {
  const bool text = all_same_text(points), bits = all_same_bits(points);
  return std::string("<p class=\"verdict\">") + (text ? "Same text" : "Other text") + ", " +
         (bits ? "same bits" : "other bits") + ".</p>\n<p>The answers of all three are " +
         (text ? "the same ids" : "NOT the same ids") + ", and the logits behind them are " +
         (bits ? "the same, bit for bit" : "NOT the same bits") + ", at every history and in every round.</p>\n";
}

std::string slopes_of(std::span<const TurnCurvePoint> points) {
  const TurnCurveFit fit = fit_of(points);
  if (!fit.known) return "";
  return "<p>With 1,000 tokens more of history the warm turn takes " + number(fit.turn_us_per_1000, "%.1f") +
         " \xc2\xb5s longer; one bare pass of the model over as many new tokens, which is attention's part, " +
         number(fit.pass_us_per_1000, "%.1f") + " \xc2\xb5s. Turn minus pass, round by round: " +
         number(fit.besides_us_per_1000, "%.1f") + " \xc2\xb5s, in all " + number(fit.besides_percent, "%.2f") +
         " % of the longest history's turn.</p>\n";
}

std::string table_of(std::span<const TurnCurvePoint> points, size_t rounds) {
  std::string html = "<div class=\"scroll\"><table>\n<caption>Milliseconds to the first token: medians of " +
                     std::to_string(rounds) + " interleaved rounds, quartiles behind them</caption>\n<thead><tr>";
  for (const char* name : {"history", "read now", "reuse", "read again", "ratio", "read again now", "from disk",
                           "to reuse", "bare pass", "same text", "same bits"}) {
    html += std::string("<th scope=\"col\">") + name + "</th>";
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const TurnCurvePoint& p : points) {
    const double warm = p.warm_ms.median > 0 ? p.warm_ms.median : 1;
    html += "<tr>" + cell(std::to_string(p.history)) + cell(std::to_string(p.n_read_warm)) + spread_cell(p.warm_ms) +
            spread_cell(p.cold_ms) + cell(number(p.cold_ms.median / warm, "%.1f")) +
            cell(std::to_string(p.n_read_cold)) + spread_cell(p.resumed_ms) +
            cell(number(p.resumed_ms.median / warm, "%.2f")) + spread_cell(p.pass_ms) +
            cell(p.same_text ? "yes" : "no") + cell(p.same_bits ? "yes" : "no") + "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string facts_of(const BenchSetup& setup) {
  std::string html = "<h2>How it was measured</h2>\n<dl>\n";
  const auto fact = [&](const char* name, const std::string& value) {
    html += std::string("<dt>") + name + "</dt><dd>" + html_escaped(value.empty() ? "not given" : value) + "</dd>\n";
  };
  fact("model", setup.model);
  fact("machine", setup.machine);
  fact("setting", std::to_string(setup.n_threads) + " threads, " + setup.kv + " keys and values, " + setup.numerics +
                      ", " + setup.isa);
  fact("commit", setup.commit);
  fact("date", setup.date);
  fact("command", setup.command);
  return html + "</dl>\n<p>Reuse: the session holds what was said. Read again: the saved conversation with nothing "
                "held anywhere. From disk: the saved conversation in a new engine with a cache directory, whose files "
                "the system was asked to forget. The last two count from opening the conversation; none counts the "
                "loading of the model.</p>\n";
}

}  // namespace

std::string turn_curve_page(const BenchSetup& setup, std::span<const TurnCurvePoint> points, size_t rounds) {
  constexpr const char* kAxis = "tokens of history";
  LineChart all{"Time to the first token against the history", kAxis, "ms to the first token", true, {}};
  constexpr const char* kWarm = "reuse (warm session)";
  all.series = {series_of(kWarm, points, &TurnCurvePoint::warm_ms),
                series_of("reuse off (read again)", points, &TurnCurvePoint::cold_ms),
                series_of("resumed from disk", points, &TurnCurvePoint::resumed_ms)};
  LineChart warm{"The turn of the warm session and one bare pass", kAxis, "ms", false, {}};
  warm.series = {series_of(kWarm, points, &TurnCurvePoint::warm_ms),
                 series_of("one bare pass", points, &TurnCurvePoint::pass_ms)};
  const std::string title = "Time to the first token: " + setup.model;
  std::string html = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
                     html_escaped(title) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" +
                     html_escaped(title) + "</h1>\n";
  html += "<h2>History does not cost what it cost to read</h2>\n<p>Logarithmic.</p>\n" + svg_of(all);
  html += verdict_of(points);
  html += "<h2>What grows is attention</h2>\n"
          "<p>Without a history the turn reads the template's beginning as well.</p>\n" +
          svg_of(warm) + slopes_of(points);
  html += "<h2>The numbers</h2>\n" + table_of(points, rounds) + facts_of(setup);
  return html + "</body>\n</html>\n";
}

}  // namespace ibid
