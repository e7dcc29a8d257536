"""Which columns an SQL expression may use, by its text."""

from __future__ import annotations

import pytest

from anabranch.spark.operators import expressions


@pytest.mark.parametrize(
    ("expression", "column"),
    [
        ("max(user)", "user"),
        ("max(USER)", "user"),
        ("`user` <> 'bot'", "User"),
        ("s.user", "s"),
        ("`a b` + 1", "a b"),
        ("concat('`', `a b`)", "a b"),
        ("`a``b` + 1", "a`b"),
        ("größe * 2", "Größe"),
        ("identifier('us' || 'er')", "user"),
        ("count(*) filter (where user is null)", "user"),
    ],
)
def test_a_column_whose_name_is_in_an_expression_may_be_used(expression: str, column: str) -> None:
    assert expressions.names(expression, column)


@pytest.mark.parametrize("expression", ["count(*)", "max(user_id)", "current_user", "x.users", ""])
def test_a_column_whose_name_is_only_part_of_other_words_is_not_used(expression: str) -> None:
    assert not expressions.names(expression, "user")


@pytest.mark.parametrize(
    "expression",
    [
        "*",
        "s.*",
        "`s t`.*",
        "* except (x)",
        "to_json(struct(*))",
        "struct(a, *)",
        "count(distinct *)",
        "case when a then * end",
        "struct(s.*)",
        "struct('it''s', *)",
        "struct(r'\\', *)",
        "struct(`it's`, *, `it's`)",
        "struct( -- all\n *)",
        "struct(/* don't */ *, /* don't */ 1)",
    ],
)
def test_a_star_that_stands_for_columns_is_found(expression: str) -> None:
    assert expressions.has_star(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "count(*)",
        "COUNT ( * ) + 1",
        "a * b",
        "`a` * 2",
        "(a + 1) * x[0] * 2.5",
        "xs[0]*2",
        "'2' * a",
        "a rlike '^.*$' and b like '*'",
        "'/*'",
        "regexp_replace(a, r'\\*', '')",
    ],
)
def test_a_multiplication_and_a_star_in_text_stand_for_no_columns(expression: str) -> None:
    assert not expressions.has_star(expression)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("to_json(struct(*))", "to_json(struct(`a`, `b c`))"),
        ("struct(1 as x, *)", "struct(1 as x, `a`, `b c`)"),
        ("struct( * , 'x')", "struct( `a`, `b c` , 'x')"),
        ("hash('a,*,b', *)", "hash('a,*,b', `a`, `b c`)"),
        ("count(DISTINCT *)", "count(DISTINCT `a`, `b c`)"),
        ("struct(* except (a))", "struct(* except (`_h`, a))"),
        ("array(*, a * 2, count(*))", "array(`a`, `b c`, a * 2, count(*))"),
    ],
)
def test_a_star_among_arguments_does_not_stand_for_the_hidden_column(expression: str, found: str) -> None:
    assert expressions.without_hidden(expression, ["a", "b c"], "_h") == found


@pytest.mark.parametrize(
    "expression",
    [
        "count(*)",
        "COUNT ( * ) + 1",
        "(a) * (b)",
        "f(a) * 2",
        "s.*",
        "struct(s.*)",
        "concat('(*)', '*')",
        "f(`(*)`)",
        "*",
        "struct(/* all */ *)",
        "(2 * a, b * 3)",
    ],
)
def test_another_star_stays(expression: str) -> None:
    assert expressions.without_hidden(expression, ["a", "b c"], "_h") == expression
