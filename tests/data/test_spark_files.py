"""A folder that Apache Spark has written, as it is: Spark 4.3 with the script below, its marks and check sums included.

frame.repartition(3).write.partitionBy("job").parquet("spark_claims")
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.data.parquet import ParquetSource

FOLDER = Path(__file__).parent / "spark_claims"
SCHEMA = dp.Schema(
    {"age": dp.Numeric(0, 97), "job": dp.Categorical(["a", "b"]), "who": dp.Person(3), "y": dp.Boolean("no", "yes")}
)


def model() -> dp.LogisticRegression:
    return dp.LogisticRegression(1.0, 1e-6, schema=SCHEMA, random_state=1)


def table() -> pd.DataFrame:
    """All rows in memory, in the order of the files."""
    parts = []
    for file in sorted(FOLDER.rglob("*.parquet")):
        parts.append(pd.read_parquet(file).assign(job=file.parent.name.removeprefix("job=")))
    return pd.concat(parts, ignore_index=True)


def test_a_folder_that_spark_has_written() -> None:
    """Six files, a mark of success, hidden check sums, and a column in the names of folders."""
    whole = table()
    assert len(whole) == 600
    source = dp.Parquet(FOLDER).source(SCHEMA, "y")
    assert isinstance(source, ParquetSource)
    assert (source.n, len(source.files)) == (600, 6)
    found = model().fit(dp.Parquet(FOLDER, target="y"))
    assert np.array_equal(found.coef_, model().fit(whole, whole.y).coef_)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # of Spark about pandas
def test_what_the_installed_spark_writes(tmp_path: Path) -> None:
    """The same with the engine itself, where it is installed."""
    sql = pytest.importorskip("pyspark.sql")
    spark = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = spark.createDataFrame(table())
        frame.write.partitionBy("job").parquet(str(tmp_path / "claims"))
        frame.write.option("header", True).option("compression", "gzip").csv(str(tmp_path / "lines"))
        arrow = frame.toArrow()
    finally:
        spark.stop()
    assert dp.Parquet(tmp_path / "claims").source(SCHEMA, "y").n == 600
    assert all(file.suffix == ".gz" for file in (tmp_path / "lines").glob("part-*"))
    lines = model().fit(dp.CSV(tmp_path / "lines", target="y"))
    assert np.array_equal(lines.coef_, model().fit(table(), table().y).coef_)
    assert np.array_equal(
        model().fit(arrow, arrow["y"].to_pandas().rename("y")).coef_, model().fit(table(), table().y).coef_
    )
