#include "reports/predict/prediction.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/reports/golden_file.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

using Time = std::function<double(int64_t)>;

/// A step of 8 ms and 2 ms per image.
double straight(int64_t batch) {
  return 0.008 + 0.002 * static_cast<double>(batch);
}

/// 100 bytes of weights, and 7 of activations per image.
BatchPoint point(int64_t batch, const Time& time = straight) {
  const double step_s = time(batch);
  return {batch,
          step_s,
          {0.99 * step_s, 1.01 * step_s},
          100 + 7 * batch,
          "forward, aten::mul",
          {{"weights", 100}, {"activations", 7 * batch}}};
}

std::vector<BatchPoint> points(const std::vector<int64_t>& batches, const Time& time = straight) {
  std::vector<BatchPoint> all;
  for (const int64_t batch : batches) all.push_back(point(batch, time));
  return all;
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

/// The tolerance is that of sums of a few terms in double precision.
TEST(BatchModel, of_points_on_a_line_predicts_the_line) {
  const BatchModel model(points({16, 4, 8}));
  EXPECT_TRUE(model.is_straight());
  for (const int64_t batch : {2, 5, 12, 32}) {
    const BatchPrediction predicted = model.at(batch);
    EXPECT_NEAR(predicted.step_s, straight(batch), 1e-12) << batch;
    EXPECT_EQ(predicted.peak_bytes, 100 + 7 * batch);
    EXPECT_LT(predicted.step_ci95.low, predicted.step_s);
    EXPECT_GT(predicted.step_ci95.high, predicted.step_s);
  }
}

TEST(BatchModel, is_surer_between_its_points_than_beyond_them) {
  const BatchModel model(points({4, 8, 16}));
  const auto width = [&](int64_t batch) {
    const BatchPrediction at = model.at(batch);
    return (at.step_ci95.high - at.step_ci95.low) / at.step_s;
  };
  EXPECT_LT(width(8), width(32));
  EXPECT_LT(width(32), width(320));
}

/// With noise of 1 % on every time, an interval of 95 % holds the truth in at least 90 % of 400
/// models: chance alone gives fewer than that once in 10^4 tries.
TEST(BatchModel, holds_the_truth_in_its_interval) {
  std::mt19937_64 generator(7);
  std::normal_distribution<double> noise(0, 0.01);
  int held = 0;
  for (int model = 0; model < 400; ++model) {
    std::vector<BatchPoint> noisy = points({4, 8, 16});
    for (BatchPoint& one : noisy) {
      one.step_s *= 1 + noise(generator);
      one.step_ci95 = {one.step_s * (1 - 0.0196), one.step_s * (1 + 0.0196)};
    }
    const Interval at = BatchModel(noisy).at(32).step_ci95;
    held += at.low <= straight(32) && straight(32) <= at.high ? 1 : 0;
  }
  EXPECT_GE(held, 360);
}

/// The step takes 3 times as long as the reference's, while the machine becomes half as fast, and
/// another program takes it away during one turn.
TEST(StepInTurns, is_what_the_reference_says_on_a_machine_that_slows_down) {
  std::vector<TurnBlock> blocks;
  for (int i = 0; i < 8; ++i) {
    const double factor = i < 4 ? 1 : 2;
    blocks.push_back({{0.3 * factor, 0.3 * factor}, {0.1 * factor, 0.1 * factor}});
  }
  blocks[2].step_s = {0.9, 0.9};
  const StepTime time = step_in_turns(blocks, 0.1);
  EXPECT_NEAR(time.step_s, 0.3, 1e-12);
  EXPECT_NEAR(time.ci95.low, 0.3, 1e-12);
  EXPECT_NEAR(time.ci95.high, 0.9, 1e-12) << "eight blocks do not prove that one is an exception";
}

/// The time of an image grows with the batch, so that no line holds it.
TEST(BatchModel, holds_a_curve_in_its_intervals_by_how_it_bends_between_its_points) {
  const Time curve = [](int64_t batch) {
    const auto images = static_cast<double>(batch);
    return 0.008 + 0.002 * images + 0.00002 * images * images;
  };
  const BatchModel model(points({4, 8, 16}, curve));
  for (const int64_t batch : {6, 12, 20, 24, 32}) {
    const Interval at = model.at(batch).step_ci95;
    EXPECT_LE(at.low, curve(batch)) << batch;
    EXPECT_GE(at.high, curve(batch)) << batch;
  }
}

/// Each image is twice as slow beyond a batch of 8, as when a cache is full.
TEST(BatchModel, of_points_on_no_line_is_straight_between_them) {
  const Time bent = [](int64_t batch) {
    return straight(batch) + 0.002 * static_cast<double>(std::max<int64_t>(batch - 8, 0));
  };
  const BatchModel model(points({4, 8, 16}, bent));
  EXPECT_FALSE(model.is_straight());
  for (const int64_t batch : {4, 6, 8, 12, 16, 32}) {
    EXPECT_NEAR(model.at(batch).step_s, bent(batch), 1e-12) << batch;
  }
}

TEST(BatchModel, says_how_far_a_size_lies_from_its_points) {
  const BatchModel model(points({4, 8, 16}));
  EXPECT_EQ(model.at(4).range, BatchRange::kWithin);
  EXPECT_EQ(model.at(16).range, BatchRange::kWithin);
  EXPECT_EQ(model.at(2).range, BatchRange::kNear);
  EXPECT_EQ(model.at(32).range, BatchRange::kNear);
  EXPECT_EQ(model.at(1).range, BatchRange::kBeyond);
  EXPECT_EQ(model.at(33).range, BatchRange::kBeyond);
}

TEST(BatchModel, finds_the_largest_batch_within_a_memory) {
  const BatchModel model(points({4, 8, 16}));
  EXPECT_EQ(model.largest_within(100 + 7 * 24), 24);
  EXPECT_EQ(model.largest_within(100 + 7 * 24 - 1), 23);
  EXPECT_EQ(model.largest_within(106), std::nullopt) << "not even one image";
}

/// It trains 32 / 72 of an image per ms at 32 images; 95 % of that are 0.4222, which 22 images
/// reach with 22 / 52 and 21 images do not with 21 / 50.
TEST(BatchModel, finds_the_batch_from_which_larger_ones_gain_little) {
  EXPECT_EQ(BatchModel(points({4, 8, 16})).knee(), 22);
}

TEST(BatchModel, needs_three_different_sizes) {
  EXPECT_NE(refusal([] { (void)BatchModel(points({4, 8})); }), "accepted");
  EXPECT_NE(refusal([] { (void)BatchModel(points({4, 8, 8})); }), "accepted");
}

/// The mode makes each image 10 % slower and holds 2 bytes of it instead of 7. One image takes 10
/// ms in 107 bytes, where the mode trains three in 14.6 ms.
TEST(Overtaking, is_where_a_larger_batch_in_the_same_memory_is_faster) {
  std::vector<BatchPoint> lean;
  for (const int64_t batch : {4, 8, 16}) {
    BatchPoint one =
        point(batch, [](int64_t b) { return 0.008 + 0.0022 * static_cast<double>(b); });
    one.peak_bytes = 100 + 2 * batch;
    lean.push_back(one);
  }
  const BatchModel none(points({4, 8, 16}));
  const auto found = overtaking(BatchModel(lean), none);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->batch, 1);
  EXPECT_EQ(found->memory_bytes, 107);
  EXPECT_EQ(found->larger_batch, 3);
  EXPECT_FALSE(overtaking(none, BatchModel(lean)));
}

TEST(HeldOutSizes, lie_between_the_sizes_and_up_to_twice_the_largest) {
  EXPECT_EQ(held_out_batches({4, 8, 16}, 1), (std::vector<int64_t>{6, 12, 20, 24, 32}));
  EXPECT_EQ(held_out_batches({8, 16, 32}, 4), (std::vector<int64_t>{12, 24, 40, 48, 64}));
  const std::string words = refusal([] { (void)held_out_batches({1, 2, 3}, 1); });
  EXPECT_NE(words.find("batch sizes: 1, 2, 3 (three with"), std::string::npos) << words;
}

PredictionPage page(double time_factor, double memory_factor) {
  PredictedVariant none{"none", points({4, 8, 16}), points({6, 12, 20, 24, 32})};
  BatchPoint& last = none.held_out.back();
  last.step_s *= time_factor;
  last.step_ci95 = {0.99 * last.step_s, 1.01 * last.step_s};
  last.peak_bytes = static_cast<int64_t>(static_cast<double>(last.peak_bytes) * memory_factor);
  return predict("gmm16@cpu", {none}, 1000);
}

TEST(PredictionPage, is_red_where_a_size_that_was_held_out_departs) {
  EXPECT_EQ(page(1.08, 1).code, ExitCode::kPass);
  EXPECT_EQ(page(1.15, 1).code, ExitCode::kFailed);
  EXPECT_EQ(page(0.87, 1).code, ExitCode::kFailed);
  EXPECT_EQ(page(1, 1.03).code, ExitCode::kFailed);
  EXPECT_NE(page(1.15, 1).text.find("**FAIL**"), std::string::npos);
}

TEST(PredictionPage, proves_nothing_where_a_measured_time_is_too_uncertain) {
  PredictedVariant none{"none", points({4, 8, 16}), points({6, 12, 20, 24, 32})};
  BatchPoint& last = none.held_out.back();
  last.step_ci95.low = last.step_s;
  last.step_s *= 1.15;
  last.step_ci95.high = 1.3 * last.step_s;
  const PredictionPage found = predict("gmm16@cpu", {none}, {});
  EXPECT_EQ(found.code, ExitCode::kInconclusive);
  EXPECT_NE(found.text.find("**INCONCLUSIVE**"), std::string::npos) << found.text;
  EXPECT_NE(found.text.find("too uncertain to tell"), std::string::npos) << found.text;
}

TEST(PredictionPage, says_how_many_measured_times_agree_with_the_interval_of_their_prediction) {
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(page(1, 1).text,
                  ". 5 of 5 measured times agree with the interval of their "
                  "prediction.\n"))
      << page(1, 1).text;
  EXPECT_TRUE(has(page(1.08, 1).text, ". 4 of 5 measured times agree")) << page(1.08, 1).text;
}

/// The owner holds 10 MiB of 4 images and 12 of 8, but 60 of 16, so that its line is below 0 at 0.
TEST(PredictionPage, shows_what_owners_hold_at_the_smallest_size_and_of_each_image_more) {
  constexpr int64_t kMiB = 1024 * 1024;
  PredictedVariant none{"none", points({4, 8, 16}), {}};
  for (BatchPoint& one : none.points) {
    one.owners = {{"encoded", 0}, {"temporary", (one.batch == 16 ? 60 : 8 + one.batch / 2) * kMiB}};
  }
  const std::string text = predict("gmm16", {none}, {}).text;
  for (const char* line : {"at batch 4 (MiB) | each image more (MiB) | off the line (MiB) |",
                           "| temporary |            10.00 |                  4.17 |              "
                           "14.67 |"}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
  EXPECT_EQ(text.find("| encoded"), std::string::npos) << "it holds nothing: " << text;
  const char* words =
      "Where an owner holds less at more images, the peak of a step lies at another";
  EXPECT_EQ(text.find(words), std::string::npos);
  none.points.back().owners["temporary"] = kMiB;
  EXPECT_NE(predict("gmm16", {none}, {}).text.find(words), std::string::npos);
}

TEST(PredictionPage, has_every_owner_and_the_largest_batch) {
  const std::string text = page(1, 1).text;
  for (const char* part : {"# Prediction of gmm16@cpu", "**PASS**", "weights", "activations",
                           "extrapolated", "128 (beyond what was checked)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const PredictedVariant unchecked{"none", points({4, 8, 16}), {}};
  EXPECT_NE(predict("gmm16@cpu", {unchecked}, {}).text.find("not checked"), std::string::npos);
}

TEST(PredictionPage, names_the_sizes_whose_peak_lies_elsewhere) {
  PredictedVariant none{"none", points({4, 8, 16}), points({6, 12, 20, 24, 32})};
  none.held_out.back().peak_at = "forward, aten::conv2d";
  const std::string text = predict("gmm16@cpu", {none}, {}).text;
  EXPECT_NE(text.find("- batch 32: forward, aten::conv2d"), std::string::npos) << text;
  EXPECT_EQ(page(1, 1).text.find("at these sizes"), std::string::npos);
}

TEST(BatchPoint, needs_a_run_that_measured_time_and_memory) {
  Result result = test::result_on_a_gpu();
  const BatchPoint found = batch_point(result, "cell");
  EXPECT_EQ(found.batch, result.protocol.batch);
  EXPECT_EQ(found.peak_bytes, result.memory.peak_bytes);
  const auto refused = [&] { return refusal([&] { (void)batch_point(result, "cell"); }); };
  result.memory.measured = false;
  EXPECT_EQ(refused().find("cell: peak_bytes: not measured"), 0U) << refused();
  result.metrics.clear();
  EXPECT_EQ(refused().find("cell: images_per_s: not measured"), 0U) << refused();
}

// If a field changed, run NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_predict_test
TEST(PredictionFile, is_published_with_its_documentation_as_its_fields_say) {
  test::expect_published(NOISEMARK_PREDICT_ROOM,
                         {{json::kPredictionDocument, json::shape_of<PredictionFile>()}});
}

TEST(PredictionPage, says_of_which_work_each_of_its_modes_is) {
  const Strings work = {{"cell", "gmm16@cpu none"}, {"identity.threads", "2"}};
  const PredictionPage page = predict("gmm16", {{"none", points({8, 16, 32}), {}, work}}, {});
  EXPECT_EQ(predicted_works(page.json), (std::map<std::string, Strings>{{"none", work}}));
  EXPECT_TRUE(predicted_works("{\"variants\": [{\"name\": \"none\"}]}").empty());
  EXPECT_TRUE(predicted_works("no JSON").empty());
}

TEST(PredictionPage, has_its_figures_as_json_with_both_curves_up_to_twice_the_largest_size) {
  const PredictionPage page =
      predict("gmm16", {{"none", points({8, 16, 32}), {point(64)}}}, int64_t{1000});
  const auto json = nlohmann::json::parse(page.json);
  EXPECT_EQ(json.at("memory_bytes"), 1000);
  const auto& variant = json.at("variants").at(0);
  EXPECT_EQ(variant.at("held_out").at(0).at("batch"), 64);
  const auto& curve = variant.at("curve");
  EXPECT_EQ(curve.at(0).at("batch"), 4);
  EXPECT_EQ(curve.at(0).at("within"), false);
  EXPECT_EQ(curve.at(4).at("within"), true);
  EXPECT_EQ(curve.back().at("batch"), 64);
  for (const auto& at : curve) {
    const auto batch = at.at("batch").get<int64_t>();
    EXPECT_EQ(at.at("peak_bytes"), 100 + 7 * batch);
    EXPECT_NEAR(at.at("step_s").get<double>(), straight(batch), 1e-12);
  }
}

}  // namespace
}  // namespace noisemark::reports
