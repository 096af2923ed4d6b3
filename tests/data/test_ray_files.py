"""What Ray Data hands over, with the engine itself, where it is installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import discreet as dp

ray = pytest.importorskip("ray")
SCHEMA = dp.Schema({"x": dp.Numeric(-1, 1), "y": dp.Categorical([0, 1])})


@pytest.mark.filterwarnings("ignore")  # of Ray about its own settings
def test_files_that_ray_has_written_and_its_tables(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 600)
    table = pd.DataFrame({"x": x, "y": (x + rng.normal(size=600) > 0).astype(int)})
    ray.init(num_cpus=1, include_dashboard=False)
    try:
        dataset = ray.data.from_pandas([table.iloc[:250], table.iloc[250:]])
        dataset.write_parquet(str(tmp_path))
        held = pa.concat_tables(ray.get(dataset.to_arrow_refs()))
    finally:
        ray.shutdown()

    def model() -> dp.LogisticRegression:
        return dp.LogisticRegression(1.0, 1e-6, schema=SCHEMA, random_state=1)

    written = pd.concat([pd.read_parquet(file) for file in sorted(tmp_path.glob("*.parquet"))], ignore_index=True)
    expected = model().fit(written[["x"]], written.y).coef_
    assert len(written) == len(held) == 600
    assert np.array_equal(model().fit(dp.Parquet(tmp_path, target="y")).coef_, expected)
    lent = model().fit(held, held["y"].to_pandas().rename("y"))
    assert np.array_equal(lent.coef_, model().fit(table[["x"]], table.y).coef_)
