-- The tracker's tables, as numbered steps. A file gains the steps that it lacks when it is opened,
-- all in one transaction, and schema_version names them. A step that was released is never edited:
-- what is new is a further step, which only adds (tables, and columns that may be null), so that
-- the rows of older files stay as they are. A file with a step that is unknown here is refused.
--
-- All times are UTC to the microsecond.
--
-- No foreign keys: DuckDB checks them too eagerly to delete children and parent in one
-- transaction. One primary key, on the parent: an index on every child would make a purge ten
-- times slower. Children carry their parent's tenant, corpus and time, so that purges and
-- windowed reads skip whole row groups without a join.

-- Step 1

CREATE TABLE schema_version (
    version INTEGER NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE retrievals (
    retrieval_id VARCHAR PRIMARY KEY,
    tenant VARCHAR NOT NULL,
    corpus VARCHAR NOT NULL,
    query VARCHAR NOT NULL,
    retrieved_at TIMESTAMPTZ NOT NULL,
    verdict VARCHAR,
    corrections BIGINT NOT NULL,
    rerank_applied BOOLEAN NOT NULL,
    degraded VARCHAR[] NOT NULL,
    forward_passes BIGINT NOT NULL,
    reused_scores BIGINT NOT NULL,
    cached_scores BIGINT NOT NULL,
    shared_scores BIGINT NOT NULL,
    model VARCHAR,
    timings_ms MAP(VARCHAR, DOUBLE) NOT NULL
);

-- One row per candidate, returned or dropped; "position" is its place among the candidates.
CREATE TABLE retrieved_hits (
    retrieval_id VARCHAR NOT NULL,
    tenant VARCHAR NOT NULL,
    corpus VARCHAR NOT NULL,
    retrieved_at TIMESTAMPTZ NOT NULL,
    model VARCHAR, -- that scored this hit; null for an unscored one
    position BIGINT NOT NULL,
    hit_id VARCHAR NOT NULL,
    document_id VARCHAR NOT NULL,
    chunk_index BIGINT,
    rank BIGINT,
    retrieval_rank BIGINT NOT NULL,
    retrieval_score DOUBLE,
    fusion_score DOUBLE,
    logit DOUBLE,
    relevance DOUBLE,
    grade VARCHAR,
    scored BOOLEAN NOT NULL,
    returned BOOLEAN NOT NULL
);

-- At most one row per (retrieval_id, document_id): the writer deletes before it inserts.
CREATE TABLE feedback (
    retrieval_id VARCHAR NOT NULL,
    tenant VARCHAR NOT NULL,
    corpus VARCHAR NOT NULL,
    retrieved_at TIMESTAMPTZ NOT NULL,
    document_id VARCHAR NOT NULL,
    outcome VARCHAR NOT NULL,
    given_at TIMESTAMPTZ NOT NULL
);

-- At most one row per (tenant, corpus, document_id): the writer deletes before it inserts.
CREATE TABLE documents (
    tenant VARCHAR NOT NULL,
    corpus VARCHAR NOT NULL,
    document_id VARCHAR NOT NULL,
    title VARCHAR,
    updated_at TIMESTAMPTZ NOT NULL,
    deleted_at TIMESTAMPTZ
);

CREATE TABLE retention_runs (
    started_at TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ NOT NULL,
    cutoff TIMESTAMPTZ NOT NULL,
    deleted BIGINT NOT NULL,
    error VARCHAR,
    trigger VARCHAR NOT NULL
);

-- Step 2

-- The fallback that a hit came from; null for a hit of the corpus itself.
ALTER TABLE retrieved_hits ADD COLUMN IF NOT EXISTS origin VARCHAR;

-- At most one row per (retrieval_id, model): the writer skips what is stored.
CREATE TABLE IF NOT EXISTS comparisons (
    retrieval_id VARCHAR NOT NULL,
    tenant VARCHAR NOT NULL,
    corpus VARCHAR NOT NULL,
    retrieved_at TIMESTAMPTZ NOT NULL,
    served_model VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    pairs BIGINT NOT NULL,
    kendall DOUBLE,
    overlap DOUBLE,
    k BIGINT NOT NULL,
    latency_ms DOUBLE,
    error VARCHAR
);

-- Step 3

-- The first files of step 2 came without it.
ALTER TABLE retrieved_hits ADD COLUMN IF NOT EXISTS origin VARCHAR;

-- Whose records a run was to purge; null means of every tenant, of every corpus.
ALTER TABLE retention_runs ADD COLUMN tenant VARCHAR;
ALTER TABLE retention_runs ADD COLUMN corpus VARCHAR;

-- Damage that was found when the file was opened: the files set aside, and how many records were
-- in the write-ahead log at most; null where the database itself was lost.
CREATE TABLE damages (
    found_at TIMESTAMPTZ NOT NULL,
    set_aside VARCHAR[] NOT NULL,
    possibly_lost BIGINT
);
