#include "reports/ab/record.h"

#include <utility>

#include "reports/ab/strict_json.h"
#include "reports/file.h"

namespace noisemark::reports {
namespace {

OrderedJson json_of(const AbBuild& build) {
  return {{"name", build.name},   {"benchmark", build.benchmark},   {"variant", build.variant},
          {"batch", build.batch}, {"parameters", build.parameters}, {"identity", build.identity},
          {"about", build.about}};
}

OrderedJson json_of(const AbPlan& plan) {
  return {{"pairs", plan.pairs},
          {"warmup_steps", plan.warmup_steps},
          {"turn_steps", plan.turn_steps},
          {"blocks", plan.blocks},
          {"seconds", plan.seconds},
          {"slow_down_frac", plan.slow_down_frac},
          {"noise_floor_frac", plan.noise_floor_frac},
          {"turn_s", plan.turn_s}};
}

OrderedJson json_of(const std::vector<AbTurn>& turns) {
  OrderedJson list = OrderedJson::array();
  for (const AbTurn& turn : turns) {
    list.push_back(
        {{"side", ab_side_name(turn.side)}, {"step_s", turn.step_s}, {"loss", turn.loss}});
  }
  return list;
}

OrderedJson json_of(const ExactRow& row) {
  OrderedJson json = {{"metric", row.metric}, {"unit", row.unit}};
  if (row.base) json["a"] = *row.base;
  if (row.candidate) json["b"] = *row.candidate;
  if (!row.base_digest.empty()) json["a_digest"] = row.base_digest;
  if (!row.candidate_digest.empty()) json["b_digest"] = row.candidate_digest;
  json["verdict"] = verdict_name(row.verdict);
  json["words"] = row.words;
  return json;
}

AbSide side_of(const JsonFields& fields, const std::string& key) {
  const std::string name = fields.text(key);
  if (name == "A") return AbSide::kA;
  if (name == "B") return AbSide::kB;
  throw fields.refusal(key, "A or B");
}

AbBuild named_build_of(const JsonFields& fields) {
  AbBuild build = ab_build_of(fields);
  build.name = fields.text("name");
  return build;
}

AbPlan plan_of(const JsonFields& fields) {
  AbPlan plan;
  plan.pairs = fields.count("pairs");
  plan.warmup_steps = fields.count("warmup_steps");
  plan.turn_steps = fields.count("turn_steps");
  plan.blocks = fields.count("blocks");
  plan.seconds = fields.number("seconds");
  plan.slow_down_frac = fields.number("slow_down_frac");
  plan.noise_floor_frac = fields.number("noise_floor_frac");
  if (fields.has("turn_s")) plan.turn_s = fields.number("turn_s");
  return plan;
}

ExactRow figure_of(const JsonFields& fields) {
  ExactRow row;
  row.metric = fields.text("metric");
  row.unit = fields.text("unit");
  if (fields.has("a")) row.base = fields.number("a");
  if (fields.has("b")) row.candidate = fields.number("b");
  if (fields.has("a_digest")) row.base_digest = fields.text("a_digest");
  if (fields.has("b_digest")) row.candidate_digest = fields.text("b_digest");
  const std::optional<CompareVerdict> verdict = verdict_named(fields.text("verdict"));
  if (!verdict) throw fields.refusal("verdict", "a verdict of compare");
  row.verdict = *verdict;
  row.words = fields.text("words");
  return row;
}

std::vector<AbTurn> turns_of(const JsonFields& fields, const std::string& key) {
  std::vector<AbTurn> turns;
  for (const JsonFields& one : fields.objects(key)) {
    AbTurn turn{side_of(one, "side"), one.numbers("step_s"), one.numbers("loss")};
    for (const double seconds : turn.step_s) {
      if (!(seconds > 0)) throw one.refusal("step_s", "positive numbers");
    }
    if (turn.step_s.empty() || turn.loss.size() != turn.step_s.size()) {
      throw one.refusal("loss", "as many numbers as step_s, at least one");
    }
    turns.push_back(std::move(turn));
  }
  return turns;
}

}  // namespace

std::string_view ab_side_name(AbSide side) {
  return side == AbSide::kA ? "A" : "B";
}

AbSide other_side(AbSide side) {
  return side == AbSide::kA ? AbSide::kB : AbSide::kA;
}

AbBuild ab_build_of(const JsonFields& fields) {
  AbBuild build;
  build.benchmark = fields.text("benchmark");
  build.variant = fields.text("variant");
  build.batch = fields.count("batch");
  build.parameters = fields.count("parameters");
  build.identity = fields.strings("identity");
  build.about = fields.strings("about");
  return build;
}

std::string ab_json(const AbRecord& record) {
  OrderedJson figures = OrderedJson::array();
  for (const ExactRow& row : record.figures) figures.push_back(json_of(row));
  OrderedJson pairs = OrderedJson::array();
  for (const AbPair& pair : record.pairs) {
    OrderedJson one = {{"first", ab_side_name(pair.first)},
                       {"warmup", json_of(pair.warmup)},
                       {"turns", json_of(pair.turns)}};
    if (!pair.clock_reasons.empty()) one["clock_reasons"] = pair.clock_reasons;
    pairs.push_back(std::move(one));
  }
  OrderedJson body = {{"created_utc", record.created_utc},
                      {"ended", record.ended},
                      {"plan", json_of(record.plan)},
                      {"a", json_of(record.a)},
                      {"b", json_of(record.b)}};
  if (!record.environment.empty()) body["environment"] = record.environment;
  body["figures"] = figures;
  body["pairs"] = pairs;
  return sealed_json(kAbSchemaName, kAbSchemaVersion, body);
}

AbRecord ab_from_json(std::string_view text, const std::string& where) {
  const OrderedJson json = unseal_json(text, kAbSchemaName, kAbSchemaVersion, where);
  const JsonFields fields(json, where);
  AbRecord record;
  record.created_utc = fields.text("created_utc");
  record.ended = fields.text("ended");
  record.plan = plan_of(fields.object("plan"));
  record.a = named_build_of(fields.object("a"));
  record.b = named_build_of(fields.object("b"));
  // Of an earlier version, which made no short runs.
  if (fields.has("figures")) {
    for (const JsonFields& row : fields.objects("figures"))
      record.figures.push_back(figure_of(row));
  }
  if (fields.has("environment")) record.environment = fields.strings("environment");
  for (const JsonFields& pair : fields.objects("pairs")) {
    record.pairs.push_back(
        {side_of(pair, "first"), turns_of(pair, "warmup"), turns_of(pair, "turns"), ""});
    if (pair.has("clock_reasons")) record.pairs.back().clock_reasons = pair.text("clock_reasons");
  }
  require_known(json, parse_json(ab_json(record), where), where);
  return record;
}

AbRecord read_ab(const std::filesystem::path& path) {
  const auto file = std::filesystem::is_directory(path) ? path / "ab.json" : path;
  return ab_from_json(read_file(file), file.string());
}

}  // namespace noisemark::reports
